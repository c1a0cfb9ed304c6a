package peers

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"text/template"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// The general caches, as one would set them up before a node: in memory,
// with the waiters of a cold key held back.
var (
	//go:embed nginx.conf.tmpl
	nginxText     string
	nginxTemplate = template.Must(template.New("nginx").Parse(nginxText))

	//go:embed varnish.vcl.tmpl
	varnishText     string
	varnishTemplate = template.Must(template.New("varnish").Parse(varnishText))
)

// cacher is a general cache before a node.
type cacher struct {
	*rig.Process
	url, gzip string // without a path; gzip compresses
	logged    string // which writes accessLog
	accessLog string
}

// warmPath is asked to see whether a cache reaches its node.
const warmPath = "/staking/params"

// startNginx starts nginx before the node and keeps its answers for the time given.
func startNginx(ctx context.Context, r *rig.Rig, node string, fresh time.Duration) (*cacher, error) {
	plain, gzip, logged := rig.FreeAddr(), rig.FreeAddr(), rig.FreeAddr()
	dir, err := openDir(r, "nginx-"+rig.Port(plain))
	if err != nil {
		return nil, err
	}
	conf, err := render(dir, nginxTemplate, map[string]any{
		"User": rootName(), "Dir": dir, "Node": rig.Host(node), "Fresh": int(fresh.Seconds()), "Plain": plain, "Gzip": gzip, "Logged": logged,
	})
	if err != nil {
		return nil, err
	}
	c := &cacher{url: "http://" + plain, gzip: "http://" + gzip, logged: "http://" + logged, accessLog: filepath.Join(dir, "access.log")}
	return c, c.start(ctx, r, rig.NginxTool, "-p", dir, "-e", "stderr", "-c", conf)
}

// startVarnish starts Varnish before the node. It compresses once.
func startVarnish(ctx context.Context, r *rig.Rig, node string, fresh time.Duration) (*cacher, error) {
	addr := rig.FreeAddr()
	dir, err := openDir(r, "varnish-"+rig.Port(addr))
	if err != nil {
		return nil, err
	}
	host, port, err := net.SplitHostPort(rig.Host(node))
	if err != nil {
		return nil, err
	}
	vcl, err := render(dir, varnishTemplate, map[string]any{"Host": host, "Port": port, "Fresh": int(fresh.Seconds())})
	if err != nil {
		return nil, err
	}
	c := &cacher{url: "http://" + addr, gzip: "http://" + addr}
	return c, c.start(ctx, r, rig.VarnishTool, "-F", "-j", "none", "-n", filepath.Join(dir, "run"), "-a", addr, "-f", vcl, "-s", "malloc,512m")
}

func (c *cacher) start(ctx context.Context, r *rig.Rig, t rig.Tool, args ...string) error {
	path, err := t.Path()
	if err != nil {
		return err
	}
	if c.Process, err = r.Start(ctx, filepath.Base(path)+"-"+rig.Port(c.url), nil, append([]string{path}, args...)...); err != nil {
		return err
	}
	return c.Ready(ctx, rig.Answers(c.url+r.Path(warmPath)))
}

// rootName is the user that nginx's workers run as where it would else choose
// one that may not write to our directory: root's workers stay root.
func rootName() string {
	if u, err := user.Current(); err == nil && u.Uid == "0" {
		return u.Username
	}
	return ""
}

// openDir makes a directory in memory that a server which gives up its rights
// can still enter.
func openDir(r *rig.Rig, name string) (string, error) {
	dir := filepath.Join(r.Shm, name)
	if err := os.Chmod(r.Shm, 0o755); err != nil { //nolint:gosec // nothing secret is in it
		return "", err
	}
	return dir, os.Mkdir(dir, 0o755) //nolint:gosec // likewise
}

func render(dir string, t *template.Template, values map[string]any) (path string, err error) {
	var text bytes.Buffer
	path = filepath.Join(dir, t.Name()+".conf")
	if err := t.Execute(&text, values); err != nil {
		return "", fmt.Errorf("render %s: %w", path, err)
	}
	return path, os.WriteFile(path, text.Bytes(), 0o600)
}
