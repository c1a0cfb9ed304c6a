package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

// A Process is a program that was started, with its children.
type Process struct {
	Log  string // path of what it writes to standard output and error
	name string
	argv []string
	env  []string // as in KEY=value, beside the environment

	running atomic.Pointer[running]
}

// running is a program that was started once.
type running struct {
	cmd   *exec.Cmd
	ended chan struct{} // closed when it has ended
}

// patience is how long a process has to end after SIGTERM.
const patience = 5 * time.Second

// Start runs argv until ctx ends or the rig stops. What it writes is kept in the
// file NAME.log of the rig's directory.
func (r *Rig) Start(ctx context.Context, name string, env []string, argv ...string) *Process {
	p := &Process{Log: filepath.Join(r.Dir, name+".log"), name: name, argv: argv, env: env}
	p.Restart(ctx)
	r.OnStop(p.Stop)
	return p
}

// Restart runs the program again once it has ended.
func (p *Process) Restart(ctx context.Context) {
	log := Must(os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))
	defer log.Close()
	cmd, ended := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...), make(chan struct{})
	cmd.Dir, cmd.Env = filepath.Dir(p.Log), append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // an interrupt is for the rig to pass on
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	Check(cmd.Start())
	p.running.Store(&running{cmd, ended})
	go func() {
		_ = cmd.Wait() // ExitCode has it
		close(ended)
	}()
}

// Signal sends a signal to the process alone.
func (p *Process) Signal(s syscall.Signal) { _ = p.running.Load().cmd.Process.Signal(s) }

// Ended is closed once the process has ended.
func (p *Process) Ended() <-chan struct{} { return p.running.Load().ended }

// Wait returns once the process has ended in order.
func (p *Process) Wait() {
	now := p.running.Load()
	<-now.ended
	if code := now.cmd.ProcessState.ExitCode(); code != 0 {
		Check(fmt.Errorf("%s ended with %d%s", p.name, code, p.lastWords()))
	}
}

// Stop ends the process and its children: SIGTERM, then SIGKILL.
func (p *Process) Stop() {
	p.Signal(syscall.SIGTERM)
	select {
	case <-p.Ended():
	case <-time.After(patience):
	}
	p.Kill()
}

// Kill ends the process and its children at once.
func (p *Process) Kill() {
	now := p.running.Load()
	_ = syscall.Kill(-now.cmd.Process.Pid, syscall.SIGKILL)
	<-now.ended
}

// lastWords is the end of what the process wrote, for an error.
func (p *Process) lastWords() string {
	text, err := os.ReadFile(p.Log)
	if err != nil || len(text) == 0 {
		return ""
	}
	return "\n" + strings.TrimSpace(string(text[max(0, len(text)-1000):]))
}

// Ready tries until there is no error, for 30 s at most, or the process ends.
func (p *Process) Ready(ctx context.Context, try func(context.Context) error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	go func() {
		select {
		case <-p.Ended():
			cancel(errors.New("it ended"))
		case <-ctx.Done():
		}
	}()
	if err := Eventually(ctx, try); err != nil {
		Check(fmt.Errorf("%s is not ready: %w%s", p.name, err, p.lastWords()))
	}
}

// Eventually tries until there is no error, for 30 s at most.
func Eventually(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if !Pause(ctx, 20*time.Millisecond) {
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// Pause waits for a time. It reports false where ctx ends before.
func Pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
