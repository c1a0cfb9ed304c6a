package peers

import (
	"context"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// The servers that are compared.
const (
	tipcacheName = "tipcache"
	varnishName  = "Varnish"
	nginxName    = "nginx"
)

var serverNames = []string{tipcacheName, varnishName, nginxName}

// origin is what a server stands before. The general caches do not know blocks:
// they keep answers for a time.
type origin struct {
	node, comet string
	fresh       time.Duration
}

// before starts a server and returns its URL.
func before(ctx context.Context, r *rig.Rig, name string, o origin, flags ...string) (url string, err error) {
	var c *cacher
	switch name {
	case varnishName:
		c, err = startVarnish(ctx, r, o.node, o.fresh)
	case nginxName:
		c, err = startNginx(ctx, r, o.node, o.fresh)
	default:
		t, err := r.Replica(ctx, rig.Serving{Node: o.node, Comet: o.comet, Flags: flags})
		if err != nil {
			return "", err
		}
		return t.URL, nil
	}
	if err != nil {
		return "", err
	}
	return c.url, nil
}
