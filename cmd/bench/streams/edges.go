package streams

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// An edge is a cache before a replica, as deploy/edge has it.
type edge struct {
	*rig.Process
	name, addr string
}

var edgeNames = []string{"Varnish", "nginx"}

// before starts an edge.
func before(ctx context.Context, r *rig.Rig, name string, t *rig.Replica) (*edge, error) {
	dir, err := os.MkdirTemp("/dev/shm", "tipcache-bench-edge-") // in memory, where Linux has it
	if err != nil {
		return nil, err
	}
	r.OnStop(func() { _ = os.RemoveAll(dir) })
	e, origin, conf := &edge{name: name, addr: rig.FreeAddr()}, rig.Host(t.URL), filepath.Join(dir, "conf")
	host, port, err := net.SplitHostPort(origin)
	if err != nil {
		return nil, err
	}
	file, argv := "nginx.conf", []string{"nginx", "-p", dir, "-e", "stderr", "-c", conf, "-g", "daemon off;"}
	replace := []string{"127.0.0.1:8080", origin, "127.0.0.1:8443", e.addr, "/run/tipcache-edge.pid", filepath.Join(dir, "pid"), "/var/cache/tipcache-edge", filepath.Join(dir, "cache")}
	if name == "Varnish" {
		file, argv = "varnish.vcl", []string{"varnishd", "-F", "-j", "none", "-n", filepath.Join(dir, "run"), "-a", e.addr, "-f", conf, "-s", "malloc,64m", "-p", "default_grace=0"}
		replace = []string{`.host = "127.0.0.1"; .port = "8080"`, `.host = "` + host + `"; .port = "` + port + `"`}
	} else if os.Getuid() == 0 { // its workers would be those of another user, who may not write here
		replace = append(replace, "worker_processes auto;", "worker_processes auto;\nuser root;")
	}
	root, err := rig.Output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}")
	if err != nil {
		return nil, err
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(root), "deploy", "edge", file))
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(conf, []byte(strings.NewReplacer(replace...).Replace(string(text))), 0o600); err != nil {
		return nil, err
	}
	if e.Process, err = r.Start(ctx, filepath.Base(dir), nil, argv...); err != nil {
		return nil, err
	}
	return e, e.Ready(ctx, rig.Answers("http://"+e.addr+"/staking/pool"))
}
