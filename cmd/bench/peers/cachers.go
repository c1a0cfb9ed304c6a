package peers

import (
	"context"
	"embed"
	"net"
	"path/filepath"
	"strings"
	"text/template"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// The servers that are compared, beside bare ones.
const (
	tipcacheName = "tipcache"
	noLaneName   = "tipcache, no lane"
	varnishName  = "Varnish"
	nginxName    = "nginx"
	withLog      = " with log"
)

var serverNames = []string{tipcacheName, varnishName, nginxName}

// A peer is a server that is compared.
type peer struct {
	*rig.Process
	name      string
	url       string       // without a path
	rpc       string       // of its RPC; "" for none
	replica   *rig.Replica // of tipcache; nil for others
	gzip      string       // URL of a general cache that compresses
	logged    string       // URL of one that writes accessLog
	accessLog string
	bare      bool  // sends what was recorded
	secure    *peer // the same with TLS, nil for none
}

// origin is what a server stands before. The general caches do not know blocks:
// they keep answers for a time.
type origin struct {
	node, comet string
	fresh       time.Duration
	cert        string // of the server: a PEM file with its key; "" is no TLS
}

// before starts a server. The flags are tipcache's.
func before(ctx context.Context, r *rig.Rig, name string, o origin, flags ...string) *peer {
	rpc := rig.FreeAddr()
	serving := rig.Serving{Node: o.node, Comet: o.comet, Cert: o.cert, Flags: append(flags[:len(flags):len(flags)], "--rpc-listen", rpc)}
	switch name {
	case noLaneName:
		serving.Env = []string{"TIPCACHE_HTTP_FAST_LANE=false"}
	case nginxName, varnishName:
		return startCacher(ctx, r, name, o)
	}
	t := r.Replica(ctx, serving)
	return &peer{Process: t.Process, name: name, url: t.URL, rpc: "http://" + rpc, replica: t}
}

// The general caches, as one would set them up before a node: in memory,
// with the waiters of a cold key held back.
var (
	//go:embed *.tmpl
	templateFiles embed.FS
	templates     = template.Must(template.ParseFS(templateFiles, "*.tmpl"))
)

// startCacher starts nginx, or Varnish, which compresses once.
func startCacher(ctx context.Context, r *rig.Rig, name string, o origin) *peer {
	host, port, err := net.SplitHostPort(rig.Host(o.node))
	rig.Check(err)
	gzip, logged, secure := rig.FreeAddr(), rig.FreeAddr(), rig.FreeAddr()
	program, text, args := "varnishd", "varnish.vcl.tmpl", []string{"-s", "malloc,512m"}
	if name == nginxName {
		program, text, args = "nginx", "nginx.conf.tmpl", nil
	}
	f := r.Front(ctx, program, r.Path(smallPath), func(dir, addr string) string {
		return render(text, map[string]any{"Dir": dir, "Host": host, "Port": port, "Fresh": int(o.fresh.Seconds()), "Plain": addr, "Gzip": gzip, "Logged": logged, "Secure": secure, "Cert": o.cert})
	}, args...)
	p := &peer{Process: f.Process, name: name, url: "http://" + f.Addr, gzip: "http://" + f.Addr}
	if name == nginxName {
		p.gzip, p.logged, p.accessLog = "http://"+gzip, "http://"+logged, filepath.Join(f.Dir, "access.log")
	}
	if o.cert != "" {
		p.secure = &peer{Process: f.Process, name: name + withLog, url: "https://" + secure, accessLog: p.accessLog}
	}
	return p
}

// render fills in a template.
func render(name string, values map[string]any) string {
	var text strings.Builder
	rig.Check(templates.ExecuteTemplate(&text, name, values))
	return text.String()
}
