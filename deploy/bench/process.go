package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// process is a program that was started, with its children.
type process struct {
	name  string
	log   string // path of what it writes to standard output and error
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended
}

// patience is how long a process has to end after SIGTERM.
const patience = 5 * time.Second

// start runs argv until ctx ends. What it writes is kept in the file
// NAME.log of the bench's directory.
func (b *bench) start(ctx context.Context, name string, argv ...string) (*process, error) {
	return b.startWith(ctx, name, nil, argv...)
}

// startWith is start with more environment variables, as in KEY=value.
func (b *bench) startWith(ctx context.Context, name string, env []string, argv ...string) (*process, error) {
	p := &process{name: name, log: filepath.Join(b.dir, name+".log"), ended: make(chan struct{})}
	log, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd = exec.CommandContext(ctx, argv[0], argv[1:]...)
	p.cmd.Dir, p.cmd.Env = b.dir, append(os.Environ(), env...)
	p.cmd.Stdout, p.cmd.Stderr = log, log
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // Ctrl-C is for us to pass on
	p.cmd.Cancel = func() error { return p.cmd.Process.Signal(syscall.SIGTERM) }
	p.cmd.WaitDelay = patience
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	go func() {
		_ = p.cmd.Wait() // how it ended is of no interest once we told it to
		close(p.ended)
	}()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.processes = append(b.processes, p)
	return p, nil
}

// stop ends the process and its children: SIGTERM, then SIGKILL.
func (p *process) stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(patience):
	}
	_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // children too
	<-p.ended
}

// stopAll ends what is left, the last started first.
func (b *bench) stopAll() {
	b.mu.Lock()
	all := b.processes
	b.processes = nil
	b.mu.Unlock()
	for i := len(all) - 1; i >= 0; i-- {
		all[i].stop()
	}
}

// usage is of the process and its children.
func (p *process) usage() (usage, error) {
	u, err := usageOf(p.cmd.Process.Pid)
	if err != nil {
		return u, fmt.Errorf("%s: %w%s", p.name, err, p.lastWords())
	}
	return u, nil
}

// lastWords is the end of what the process wrote, for an error.
func (p *process) lastWords() string {
	text, err := os.ReadFile(p.log)
	if err != nil || len(text) == 0 {
		return ""
	}
	return "\n" + strings.TrimSpace(string(text[max(0, len(text)-1000):]))
}

// ready waits until url answers below 500, and fails when the process ends.
func (p *process) ready(ctx context.Context, url string) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.ended:
			cancel(errors.New("it ended"))
		case <-ctx.Done():
		}
	}()
	if err := waitHTTP(ctx, url); err != nil {
		return fmt.Errorf("%s is not ready: %w%s", p.name, err, p.lastWords())
	}
	return nil
}

// waitHTTP returns when url answers below 500, or after 30 s with an error.
func waitHTTP(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		status, err := statusOf(ctx, url)
		if err == nil && status < http.StatusInternalServerError {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w (last status %d)", url, errors.Join(context.Cause(ctx), err), status)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func statusOf(ctx context.Context, url string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// freePort is a port of 127.0.0.1 that nobody listens on. It panics without any.
func freePort() int {
	l, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it takes no time
	if err != nil {
		panic(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

func freeAddr() string { return fmt.Sprintf("127.0.0.1:%d", freePort()) }
