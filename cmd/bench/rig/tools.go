package rig

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/prometheus/procfs"
)

// A Tool is a program a part runs, and the Debian package that has it.
type Tool struct {
	name   string
	debian string
	dirs   string // pattern of directories to look in beside the PATH
}

// The tools of all parts.
var (
	WrkTool      = Tool{name: "wrk", debian: "wrk"}
	NginxTool    = Tool{name: "nginx", debian: "nginx-light", dirs: "/usr/sbin"}
	VarnishTool  = Tool{name: "varnishd", debian: "varnish", dirs: "/usr/sbin"}
	RedisTool    = Tool{name: "redis-server", debian: "redis-server"}
	RedisCLITool = Tool{name: "redis-cli", debian: "redis-tools"}
	InitdbTool   = Tool{name: "initdb", debian: "postgresql", dirs: "/usr/lib/postgresql/*/bin"}
	PostgresTool = Tool{name: "postgres", debian: "postgresql", dirs: "/usr/lib/postgresql/*/bin"}
)

// Path is where the tool is: on the PATH, else in the last of its directories.
func (t Tool) Path() (string, error) {
	if path, err := exec.LookPath(t.name); err == nil {
		return path, nil
	}
	found, _ := filepath.Glob(filepath.Join(t.dirs, t.name))
	if t.dirs == "" || len(found) == 0 {
		return "", fmt.Errorf("%s is not installed (Debian: %s)", t.name, t.debian)
	}
	return found[len(found)-1], nil
}

// lacking is an error that names every tool the parts need and do not find.
func lacking(chosen []Part) error {
	missing := ""
	for _, p := range chosen {
		for _, t := range p.Needs {
			if _, err := t.Path(); err != nil && !strings.Contains(missing, err.Error()) {
				missing += "\n  " + err.Error()
			}
		}
	}
	if missing == "" {
		return nil
	}
	return fmt.Errorf("%w: something is missing:%s", ErrUsage, missing)
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
