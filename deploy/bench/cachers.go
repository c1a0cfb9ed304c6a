package main

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"net"
	"os"
	"os/user"
	"path/filepath"
	"strings"
	"text/template"
	"time"
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

// nginxProc caches the answers of a node.
type nginxProc struct {
	*process
	plain, gzip string // URLs without a path
}

// nginx starts nginx before the node and keeps its answers for the time given.
func (b *bench) nginx(ctx context.Context, node string, fresh time.Duration) (*nginxProc, error) {
	path, err := nginxTool.path()
	if err != nil {
		return nil, err
	}
	plain, gzip := freeAddr(), freeAddr()
	dir := filepath.Join(b.shm, "nginx-"+port(plain))
	if err := openTo(b.shm, dir); err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "nginx.conf")
	err = render(conf, nginxTemplate, map[string]any{
		"User": rootName(), "Dir": dir, "Node": host(node), "Fresh": int(fresh.Seconds()), "Plain": plain, "Gzip": gzip,
	})
	if err != nil {
		return nil, err
	}
	p, err := b.start(ctx, "nginx-"+port(plain), path, "-p", dir, "-e", "stderr", "-c", conf)
	if err != nil {
		return nil, err
	}
	n := &nginxProc{process: p, plain: "http://" + plain, gzip: "http://" + gzip}
	return n, p.ready(ctx, n.plain+warmPath)
}

// warmPath is asked to see whether a cache reaches its node.
const warmPath = "/staking/params"

// rootName is the user that nginx's workers run as where it would else choose
// one that may not write to our directory: root's workers stay root.
func rootName() string {
	if u, err := user.Current(); err == nil && u.Uid == "0" {
		return u.Username
	}
	return ""
}

// varnishProc caches the answers of a node, compressed once.
type varnishProc struct {
	*process
	url string // without a path
}

// varnish starts Varnish before the node.
func (b *bench) varnish(ctx context.Context, node string, fresh, grace time.Duration) (*varnishProc, error) {
	path, err := varnishTool.path()
	if err != nil {
		return nil, err
	}
	addr := freeAddr()
	dir := filepath.Join(b.shm, "varnish-"+port(addr))
	if err := openTo(b.shm, dir); err != nil {
		return nil, err
	}
	nodeHost, nodePort, err := net.SplitHostPort(host(node))
	if err != nil {
		return nil, err
	}
	vcl := filepath.Join(dir, "varnish.vcl")
	err = render(vcl, varnishTemplate, map[string]any{
		"Host": nodeHost, "Port": nodePort, "Fresh": int(fresh.Seconds()), "Grace": int(grace.Seconds()),
	})
	if err != nil {
		return nil, err
	}
	p, err := b.start(ctx, "varnish-"+port(addr), path, "-F", "-j", "none", "-n", filepath.Join(dir, "run"), "-a", addr, "-f", vcl, "-s", "malloc,512m")
	if err != nil {
		return nil, err
	}
	v := &varnishProc{process: p, url: "http://" + addr}
	return v, p.ready(ctx, v.url+warmPath)
}

// openTo makes a directory below another one that a server which gives up its
// rights can still enter.
func openTo(parent, dir string) error {
	if err := os.Chmod(parent, 0o755); err != nil { //nolint:gosec // nothing secret is in it
		return err
	}
	return os.Mkdir(dir, 0o755) //nolint:gosec // likewise
}

func render(path string, t *template.Template, values map[string]any) error {
	var text bytes.Buffer
	if err := t.Execute(&text, values); err != nil {
		return fmt.Errorf("render %s: %w", path, err)
	}
	return os.WriteFile(path, text.Bytes(), 0o600)
}

// host is what stands between http:// and a path.
func host(url string) string { return strings.TrimPrefix(url, "http://") }
