package streams

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// edges are the caches before a replica, as deploy/edge has them, by their programs.
var edges = []struct{ name, program, file string }{{"Varnish", "varnishd", "varnish.vcl"}, {"nginx", "nginx", "nginx.conf"}}

// parameter is one of Varnish's on the command line in the head of its file.
var parameter = regexp.MustCompile(`-p (\S+=\S+)`)

// before starts an edge.
func before(ctx context.Context, r *rig.Rig, program, file string, t *rig.Replica) *rig.Front {
	root := rig.Must(rig.Output(ctx, "", "go", "list", "-m", "-f", "{{.Dir}}"))
	text := rig.Must(os.ReadFile(filepath.Join(strings.TrimSpace(root), "deploy", "edge", file)))
	var args []string
	if program == "varnishd" {
		args = []string{"-s", "malloc,64m"}
		for _, set := range parameter.FindAllSubmatch(text, -1) { // as its head says how to start it
			args = append(args, "-p", string(set[1]))
		}
	}
	return r.Front(ctx, program, "/staking/pool", func(dir, addr string) string {
		origin := rig.Host(t.URL)
		host, port, _ := net.SplitHostPort(origin)
		return strings.NewReplacer("127.0.0.1:8080", origin, "127.0.0.1:8443", addr, "pid /run/tipcache-edge.pid;", "", "/var/cache/tipcache-edge", filepath.Join(dir, "cache"),
			`.host = "127.0.0.1"; .port = "8080"`, `.host = "`+host+`"; .port = "`+port+`"`).Replace(string(text))
	}, args...)
}
