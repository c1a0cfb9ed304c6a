package rig

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/prometheus/procfs"
)

// packages are the Debian packages of the programs that parts need.
var packages = map[string]string{
	"wrk": "wrk", "openssl": "openssl", "nginx": "nginx-light", "varnishd": "varnish", "redis-server": "redis-server", "redis-cli": "redis-tools",
	"initdb": "postgresql", "postgres": "postgresql",
}

// findTools adds to the PATH where Debian keeps servers, the newest PostgreSQL
// first. It is an error that names every program that the parts need and that is
// not there.
func findTools(parts []Part) error {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	dirs = append(dirs, "/usr/sbin", os.Getenv("PATH"))
	slices.Reverse(dirs)
	if err := os.Setenv("PATH", strings.Join(dirs, ":")); err != nil {
		return err
	}
	missing := map[string]bool{}
	for _, p := range parts {
		for _, tool := range p.Needs {
			if _, err := exec.LookPath(tool); err != nil {
				missing[fmt.Sprintf("\n  %s is not installed (Debian: %s)", tool, packages[tool])] = true
			}
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("%w: something is missing:%s", ErrUsage, strings.Join(slices.Sorted(maps.Keys(missing)), ""))
}

// Output runs a program in a directory, "" for the current one, to its end, and
// returns what it prints.
func Output(ctx context.Context, dir string, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, text)
	}
	return string(text), nil
}

// Machine is one line about what the figures are measured on.
func Machine() string {
	model := runtime.GOARCH
	if fs, err := procfs.NewDefaultFS(); err == nil {
		if cpus, err := fs.CPUInfo(); err == nil && len(cpus) > 0 {
			model = cpus[0].ModelName
		}
	}
	return fmt.Sprintf("%s, %d cores, %s", model, runtime.NumCPU(), runtime.Version())
}
