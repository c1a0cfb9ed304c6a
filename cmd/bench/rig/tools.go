package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// A Tool is a program a part runs, and the Debian package that has it.
type Tool struct {
	name    string
	debian  string
	dirs    string   // pattern of directories to look in beside the PATH
	version []string // arguments that print a version; none: it is not printed
}

// The tools of all parts.
var (
	WrkTool      = Tool{name: "wrk", debian: "wrk", version: []string{"-v"}}
	NginxTool    = Tool{name: "nginx", debian: "nginx-light", dirs: "/usr/sbin", version: []string{"-v"}}
	VarnishTool  = Tool{name: "varnishd", debian: "varnish", dirs: "/usr/sbin", version: []string{"-V"}}
	RedisTool    = Tool{name: "redis-server", debian: "redis-server", version: []string{"--version"}}
	RedisCLITool = Tool{name: "redis-cli", debian: "redis-tools"}
	InitdbTool   = Tool{name: "initdb", debian: "postgresql", dirs: "/usr/lib/postgresql/*/bin", version: []string{"--version"}}
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

// Lacking is an error that names every tool the parts need and do not find.
func Lacking(chosen []Part) error {
	var lines []string
	for _, t := range toolsOf(chosen) {
		if _, err := t.Path(); err != nil {
			lines = append(lines, "\n  "+err.Error())
		}
	}
	if len(lines) == 0 {
		return nil
	}
	return fmt.Errorf("%w: something is missing:%s", ErrUsage, strings.Join(lines, ""))
}

// toolsOf are the tools of the parts, each once.
func toolsOf(chosen []Part) []Tool {
	var all []Tool
	for _, p := range chosen {
		for _, t := range p.Needs {
			if !slices.ContainsFunc(all, func(o Tool) bool { return o.name == t.name }) {
				all = append(all, t)
			}
		}
	}
	return all
}

// Machine is one line about what the figures were measured on.
func Machine(ctx context.Context, chosen []Part) string {
	words := []string{cpuModel(), fmt.Sprintf("%d cores", runtime.NumCPU()), "Linux " + kernel(), runtime.Version()}
	for _, t := range toolsOf(chosen) {
		if v := t.versionLine(ctx); v != "" {
			words = append(words, v)
		}
	}
	return strings.Join(words, ", ")
}

func (t Tool) versionLine(ctx context.Context) string {
	path, err := t.Path()
	if err != nil || t.version == nil {
		return ""
	}
	out, _ := exec.CommandContext(ctx, path, t.version...).CombinedOutput() // wrk -v ends with 1
	return t.name + " " + versionIn(string(out))
}

// versionIn is the first word of text that begins like 1.2 once a prefix such
// as nginx/ or v= is gone.
func versionIn(text string) string {
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \n\t/=()-", r) }) {
		w = strings.TrimPrefix(w, "v")
		if len(w) > 2 && w[0] >= '0' && w[0] <= '9' && strings.Contains(w, ".") {
			return w
		}
	}
	return "of unknown version"
}

func cpuModel() string {
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func kernel() string {
	text, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return "of unknown version"
	}
	return strings.TrimSpace(string(text))
}
