package peers

import (
	"context"
	"embed"
	"errors"
	"net"
	"os"
	"os/user"
	"path/filepath"
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
)

var serverNames = []string{tipcacheName, varnishName, nginxName}

// A peer is a server that is compared.
type peer struct {
	*rig.Process
	name      string
	url       string       // without a path
	replica   *rig.Replica // of tipcache; nil for others
	gzip      string       // URL of a general cache that compresses
	logged    string       // URL of one that writes accessLog
	accessLog string
	bare      bool // sends what was recorded
}

// origin is what a server stands before. The general caches do not know blocks:
// they keep answers for a time.
type origin struct {
	node, comet string
	fresh       time.Duration
}

// before starts a server. The flags are tipcache's.
func before(ctx context.Context, r *rig.Rig, name string, o origin, flags ...string) (*peer, error) {
	serving := rig.Serving{Node: o.node, Comet: o.comet, Flags: flags}
	switch name {
	case noLaneName:
		serving.Env = []string{"TIPCACHE_HTTP_FAST_LANE=false"}
	case nginxName, varnishName:
		return startCacher(ctx, r, name, o)
	}
	t, err := r.Replica(ctx, serving)
	if err != nil {
		return nil, err
	}
	return &peer{Process: t.Process, name: name, url: t.URL, replica: t}, nil
}

// The general caches, as one would set them up before a node: in memory,
// with the waiters of a cold key held back.
var (
	//go:embed *.tmpl
	templateFiles embed.FS
	templates     = template.Must(template.ParseFS(templateFiles, "*.tmpl"))
)

// startCacher starts nginx, or Varnish, which compresses once.
func startCacher(ctx context.Context, r *rig.Rig, name string, o origin) (*peer, error) {
	plain, gzip, logged := rig.FreeAddr(), rig.FreeAddr(), rig.FreeAddr()
	dir, err := os.MkdirTemp("/dev/shm", "tipcache-bench-"+name+"-") // in memory, where Linux has it
	if err != nil {
		return nil, err
	}
	r.OnStop(func() { _ = os.RemoveAll(dir) })
	host, port, err := net.SplitHostPort(rig.Host(o.node))
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "conf")
	values := map[string]any{"User": rootName(), "Dir": dir, "Host": host, "Port": port, "Fresh": int(o.fresh.Seconds()), "Plain": plain, "Gzip": gzip, "Logged": logged}
	p := &peer{name: name, url: "http://" + plain, gzip: "http://" + plain}
	text, argv := "varnish.vcl.tmpl", []string{"varnishd", "-F", "-j", "none", "-n", filepath.Join(dir, "run"), "-a", plain, "-f", conf, "-s", "malloc,512m"}
	if name == nginxName {
		text, argv = "nginx.conf.tmpl", []string{"nginx", "-p", dir, "-e", "stderr", "-c", conf}
		p.gzip, p.logged, p.accessLog = "http://"+gzip, "http://"+logged, filepath.Join(dir, "access.log")
	}
	if err := render(conf, text, values); err != nil {
		return nil, err
	}
	if p.Process, err = r.Start(ctx, filepath.Base(dir), nil, argv...); err != nil {
		return nil, err
	}
	return p, p.Ready(ctx, rig.Answers(p.url+r.Path(smallPath)))
}

// rootName is the user that nginx's workers run as where it would else choose
// one that may not write to our directory: root's workers stay root.
func rootName() string {
	if u, err := user.Current(); err == nil && u.Uid == "0" {
		return u.Username
	}
	return ""
}

// render writes a file from a template.
func render(path, name string, values map[string]any) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(templates.ExecuteTemplate(f, name, values), f.Close())
}
