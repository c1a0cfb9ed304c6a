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
func (r *Rig) Front(ctx context.Context, program, path string, configure func(dir, addr string) string, args ...string) *Front {
	f := &Front{Dir: Must(os.MkdirTemp("/dev/shm", "tipcache-bench-"+program+"-")), Addr: FreeAddr()}
	r.OnStop(func() { _ = os.RemoveAll(f.Dir) })
	conf := filepath.Join(f.Dir, "conf")
	Check(os.WriteFile(conf, []byte(configure(f.Dir, f.Addr)), 0o600))
	argv := []string{"varnishd", "-F", "-j", "none", "-n", filepath.Join(f.Dir, "run"), "-a", f.Addr, "-f", conf}
	if program == "nginx" {
		directives := "daemon off; pid " + filepath.Join(f.Dir, "pid") + ";"
		if os.Getuid() == 0 { // its workers would be those of another user, who may not write here
			directives += " user root;"
		}
		argv = []string{"nginx", "-p", f.Dir, "-e", "stderr", "-c", conf, "-g", directives}
	}
	f.Process = r.Start(ctx, filepath.Base(f.Dir), nil, append(argv, args...)...)
	f.Ready(ctx, Answers("http://"+f.Addr+path))
	return f
}
