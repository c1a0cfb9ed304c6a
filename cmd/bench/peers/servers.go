package peers

import (
	"context"
	"embed"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// Names of the compared servers.
const (
	tipcacheName = "tipcache"
	noLaneName   = "tipcache, no lane"
	nginxName    = "nginx"    // compresses, and writes a buffered access log
	bareName     = "bare gin" // sends recorded responses of tipcache
)

// An offer is a kind of content that some servers have.
type offer int

const (
	plain  offer = iota // the node's responses
	own                 // responses that only tipcache has, and the bare server recorded from it
	rpc                 // RPC calls
	secure              // the node's responses, over TLS
)

// A peer is a server under comparison.
type peer struct {
	*rig.Process
	name      string
	urls      map[offer]string // base URL for each offer
	replica   *rig.Replica     // nil for servers other than tipcache
	accessLog string           // in addition to Log
}

// origin is the upstream of a server. nginx does not know blocks and caches responses for a fixed time.
type origin struct {
	node, comet string
	fresh       time.Duration
	cert        string // of the server: a PEM file with certificate and key; "" disables TLS
}

// before starts a server in front of an origin. The flags are tipcache's.
func before(ctx context.Context, r *rig.Rig, name string, o origin, flags ...string) (p *peer) {
	switch name {
	case nginxName:
		p = startNginx(ctx, r, o)
	case bareName:
		p = startBare(ctx, r, "", o.cert)
	default:
		calls := rig.FreeAddr()
		serving := rig.Serving{Node: o.node, Comet: o.comet, Cert: o.cert, Flags: append(flags[:len(flags):len(flags)], "--rpc-listen", calls)}
		if name == noLaneName {
			serving.Env = []string{"TIPCACHE_HTTP_FAST_LANE=false"}
		}
		t := r.Replica(ctx, serving)
		p = &peer{Process: t.Process, name: name, replica: t, urls: map[offer]string{plain: t.URL, own: t.URL, rpc: "http://" + calls}}
	}
	if o.cert != "" {
		p.urls = map[offer]string{secure: "https" + strings.TrimPrefix(strings.TrimPrefix(p.urls[plain], "https"), "http")}
	}
	return p
}

// beforeAll starts several servers.
func beforeAll(ctx context.Context, r *rig.Rig, names []string, o origin, flags ...string) (all []*peer) {
	for _, name := range names {
		all = append(all, before(ctx, r, name, o, flags...))
	}
	return all
}

var (
	//go:embed *.tmpl
	templateFiles embed.FS
	templates     = template.Must(template.ParseFS(templateFiles, "*.tmpl"))
)

func startNginx(ctx context.Context, r *rig.Rig, o origin) *peer {
	f := r.Nginx(ctx, func(dir, addr string) string {
		return render("nginx.conf.tmpl", map[string]any{"Dir": dir, "Node": rig.Host(o.node), "Fresh": int(o.fresh.Seconds()), "Listen": addr, "Cert": o.cert})
	})
	return &peer{Process: f.Process, name: nginxName, urls: map[offer]string{plain: "http://" + f.Addr}, accessLog: filepath.Join(f.Dir, "access.log")}
}

// render fills in a template and returns the result.
func render(name string, values map[string]any) string {
	var text strings.Builder
	rig.Check(templates.ExecuteTemplate(&text, name, values))
	return text.String()
}
