package rig

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
	"golang.org/x/sys/unix"

	"github.com/tipcache/tipcache/upstream"
)

// A Process is a started program with its children.
type Process struct {
	Log  string // path of its standard output and error
	name string
	argv []string
	env  []string // as in KEY=value, added to the environment

	cmd   *exec.Cmd
	ended chan struct{} // closed when it has exited
}

// patience is how long a process has to end after SIGTERM.
const patience = 5 * time.Second

// Start runs argv until ctx ends or the rig stops. Its output goes to the file NAME.log of the rig's directory.
func (r *Rig) Start(ctx context.Context, name string, env []string, argv ...string) *Process {
	p := &Process{Log: filepath.Join(r.Dir, name+".log"), name: name, argv: argv, env: env}
	p.Restart(ctx)
	r.OnStop(p.Stop)
	return p
}

// Restart runs the program again after it has exited.
func (p *Process) Restart(ctx context.Context) {
	log := Must(os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600))
	defer log.Close()
	cmd, ended := exec.CommandContext(ctx, p.argv[0], p.argv[1:]...), make(chan struct{})
	cmd.Dir, cmd.Env = filepath.Dir(p.Log), append(os.Environ(), p.env...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the rig handles interrupts
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = patience
	Check(cmd.Start())
	p.cmd, p.ended = cmd, ended
	go func() {
		_ = cmd.Wait() // see ExitCode
		close(ended)
	}()
}

// SignalAll sends a signal to the process and its children.
func (p *Process) SignalAll(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

// Wait waits until the process has exited with status 0.
func (p *Process) Wait() {
	<-p.ended
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		Check(fmt.Errorf("%s ended with %d%s", p.name, code, p.lastWords()))
	}
}

// Stop ends the process and its children by SIGTERM, then SIGKILL.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.ended:
	case <-time.After(patience):
	}
	p.Kill()
}

// Kill ends the process and its children by SIGKILL.
func (p *Process) Kill() {
	p.SignalAll(syscall.SIGKILL)
	<-p.ended
}

// lastWords returns the end of the process's output, for an error.
func (p *Process) lastWords() string {
	text, err := os.ReadFile(p.Log)
	if err != nil || len(text) == 0 {
		return ""
	}
	return "\n" + strings.TrimSpace(string(text[max(0, len(text)-1000):]))
}

// Ready calls try until it succeeds, for at most 30 s. It panics by Check if the process exits.
func (p *Process) Ready(ctx context.Context, try func(context.Context) error) {
	err := Eventually(ctx, func(ctx context.Context) error {
		select {
		case <-p.ended:
			Check(fmt.Errorf("%s ended%s", p.name, p.lastWords()))
		default:
		}
		return try(ctx)
	})
	if err != nil {
		Check(fmt.Errorf("%s is not ready: %w%s", p.name, err, p.lastWords()))
	}
}

// Eventually calls try until it succeeds, for at most 30 s.
func Eventually(ctx context.Context, try func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := try(ctx)
		if err == nil {
			return nil
		}
		if !Pause(ctx, 2*time.Millisecond) { // the start of a replica is measured with it
			return errors.Join(context.Cause(ctx), err)
		}
	}
}

// Pause waits for a time. It returns false if ctx ends first.
func Pause(ctx context.Context, d time.Duration) bool { return upstream.Sleep(ctx, d) == nil }

// Usage is the resource usage of a process and its children. Shared pages count for each of them.
type Usage struct {
	CPU time.Duration // user and system
	RSS int64         // bytes
	FDs int
}

// Peak returns the process's peak resident memory, in bytes.
func (p *Process) Peak() (int64, error) {
	one, err := procfs.NewProc(p.cmd.Process.Pid)
	if err != nil {
		return 0, err
	}
	s, err := one.NewStatus()
	return int64(s.VmHWM), err //nolint:gosec // no process takes 8 EiB
}

// Usage returns the usage of the process's group, which are its children.
func (p *Process) Usage() (u Usage, err error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return u, err
	}
	for _, one := range all {
		s, err := one.Stat()
		if err != nil || s.PGRP != p.cmd.Process.Pid { // it has exited, or belongs to another group
			continue
		}
		u.CPU += cpuTime(one.PID)
		u.RSS += int64(s.ResidentMemory())
		fds, _ := one.FileDescriptorsLen()
		u.FDs += fds
	}
	if u.FDs == 0 {
		return u, fmt.Errorf("%s is gone%s", p.name, p.lastWords())
	}
	return u, nil
}

// cpuTime returns the CPU time of a process, 0 if it has exited. /proc has it in steps of 10 ms, which are a tenth of a
// short measurement.
func cpuTime(pid int) time.Duration {
	var spent unix.Timespec
	_ = unix.ClockGettime(int32(^pid<<3|2), &spent) //nolint:gosec // the clock id of a process, as in clock_getcpuclockid(3)
	return time.Duration(spent.Nano())
}

// Spent returns the CPU time that a process uses during do.
func Spent(p *Process, do func()) time.Duration {
	before := Must(p.Usage()).CPU
	do()
	return Must(p.Usage()).CPU - before
}

// Output runs a program in a directory, "" for the current one, and returns its output.
func Output(ctx context.Context, dir string, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, text)
	}
	return string(text), nil
}
