package mutants

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"
)

// A verdict is the result of the tests with a change.
type verdict string

const (
	killed    verdict = "killed"
	elsewhere verdict = "killed by another package"
	survived  verdict = "survived"
	timeout   verdict = "timeout" // the tests hang, so they notice the change
	unbuilt   verdict = "not compiled"
)

// A tested is a package that has tests.
type tested struct {
	path    string // import path
	module  string // import path of its module
	dir     string
	goFiles []string

	left []*mutant     // changes that were not tried yet
	took time.Duration // duration of its tests without a change; 0 if not yet measured
}

// support matches packages that are not part of the product.
var support = regexp.MustCompile(`/(cmd/bench|upstream/devnet)(/|$)|test$`)

// list returns the packages of the module that have tests and match the pattern.
func list(ctx context.Context, dir string, pattern *regexp.Regexp) (all []*tested, err error) {
	const format = "{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}\t{{.Module.Path}}\t{{.Dir}}{{range .GoFiles}}\t{{.}}{{end}}{{end}}"
	cmd := exec.CommandContext(ctx, "go", "list", "-f", format, "./...")
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("list the packages: %w", err)
	}
	for line := range strings.Lines(string(text)) {
		words := strings.Split(strings.TrimSpace(line), "\t")
		if p := words[0]; pattern.MatchString(p) && !support.MatchString(p) {
			all = append(all, &tested{path: p, module: words[1], dir: words[2], goFiles: words[3:]})
		}
	}
	return all, nil
}

// short is the import path within the module.
func (p *tested) short() string {
	return strings.TrimPrefix(strings.TrimPrefix(p.path, p.module), "/")
}

// prepare runs the tests of the package once without a change. If they pass within the time limit, it lists the
// package's changes in random order.
func (p *tested) prepare(ctx context.Context, o *options, random *rand.Rand) error {
	began := time.Now()
	v, err := p.test(ctx, o.slowest)
	p.took = time.Since(began) // includes the build, which takes as long with a change
	if err != nil {
		return err
	}
	if v != survived {
		o.printf("left out %s: without a change its tests are %s\n", p.short(), v)
		return nil
	}
	for _, file := range p.goFiles {
		source, err := os.ReadFile(filepath.Join(p.dir, file))
		if err != nil {
			return err
		}
		edits, err := editsOf(file, source)
		if err != nil {
			return err
		}
		for _, e := range edits {
			p.left = append(p.left, &mutant{p, file, source, e})
		}
	}
	random.Shuffle(len(p.left), func(i, j int) { p.left[i], p.left[j] = p.left[j], p.left[i] })
	return nil
}

// test builds the tests of the package and runs them for at most the given time.
func (p *tested) test(ctx context.Context, most time.Duration, flags ...string) (verdict, error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	binary := filepath.Join(dir, "test")
	build := exec.CommandContext(ctx, "go", append([]string{"test", "-vet=off", "-c", "-ldflags=-s -w", "-o", binary}, append(flags, ".")...)...)
	build.Dir = p.dir
	if build.Run() != nil {
		return unbuilt, ctx.Err()
	}
	running, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	run := exec.CommandContext(running, binary, "-test.failfast")
	run.Dir, run.WaitDelay = p.dir, time.Second
	run.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	run.Cancel = func() error { return syscall.Kill(-run.Process.Pid, syscall.SIGKILL) } // and the processes that the tests started
	switch err := run.Run(); {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err == nil:
		return survived, nil
	case running.Err() != nil:
		return timeout, nil
	default:
		return killed, nil
	}
}

// try runs the tests of the package with the change.
func (m *mutant) try(ctx context.Context, o *options) (verdict, error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	changed, overlay := filepath.Join(dir, m.file), filepath.Join(dir, "overlay.json")
	replace, err := json.Marshal(map[string]map[string]string{"Replace": {filepath.Join(m.dir, m.file): changed}})
	if err = errors.Join(err, os.WriteFile(changed, m.mutated(), 0o600), os.WriteFile(overlay, replace, 0o600)); err != nil {
		return "", err
	}
	v, err := m.test(ctx, 3*m.took+o.slowest, "-overlay", overlay)
	if err != nil || v != survived || !o.all {
		return v, err
	}
	others := exec.CommandContext(ctx, "go", "test", "-vet=off", "-failfast", "-overlay", overlay, m.module+"/...")
	others.Dir = m.dir
	if others.Run() != nil {
		return elsewhere, ctx.Err()
	}
	return survived, nil
}
