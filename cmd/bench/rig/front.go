package rig

import (
	"context"
	"os"
	"path/filepath"
)

// A Front is an nginx or a Varnish before other servers.
type Front struct {
	*Process
	Dir  string // of its own, in memory where Linux has it
	Addr string // for its configuration to listen on
}

// Front starts the program nginx or varnishd with a configuration for its directory and
// address, and waits until a path answers. Arguments are the program's.
func (r *Rig) Front(ctx context.Context, program, path string, configure func(dir, addr string) (string, error), args ...string) (*Front, error) {
	dir, err := os.MkdirTemp("/dev/shm", "tipcache-bench-"+program+"-")
	if err != nil {
		return nil, err
	}
	r.OnStop(func() { _ = os.RemoveAll(dir) })
	f, conf := &Front{Dir: dir, Addr: FreeAddr()}, filepath.Join(dir, "conf")
	text, err := configure(dir, f.Addr)
	if err != nil {
		return nil, err
	}
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return nil, err
	}
	argv := []string{"varnishd", "-F", "-j", "none", "-n", filepath.Join(dir, "run"), "-a", f.Addr, "-f", conf}
	if program == "nginx" {
		directives := "daemon off; pid " + filepath.Join(dir, "pid") + ";"
		if os.Getuid() == 0 { // its workers would be those of another user, who may not write here
			directives += " user root;"
		}
		argv = []string{"nginx", "-p", dir, "-e", "stderr", "-c", conf, "-g", directives}
	}
	if f.Process, err = r.Start(ctx, filepath.Base(dir), nil, append(argv, args...)...); err != nil {
		return nil, err
	}
	return f, f.Ready(ctx, Answers("http://"+f.Addr+path))
}
