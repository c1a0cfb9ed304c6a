package rig

import (
	"fmt"
	"time"

	"github.com/prometheus/procfs"
)

// Usage is what a process and its children have used and hold. Pages that
// several of them share count for each.
type Usage struct {
	CPU time.Duration // user and system
	RSS int64         // bytes
	FDs int
}

// Usage is of the process and its children.
func (p *Process) Usage() (Usage, error) {
	u, err := usageOf(p.running.Load().cmd.Process.Pid)
	if err != nil {
		return u, fmt.Errorf("%s: %w%s", p.name, err, p.lastWords())
	}
	return u, nil
}

// Spent is the CPU time that processes use while something is done.
func Spent(do func() error, all ...*Process) ([]time.Duration, error) {
	before, err := cpuOf(all)
	if err != nil {
		return nil, err
	}
	if err := do(); err != nil {
		return nil, err
	}
	spent, err := cpuOf(all)
	for i := range spent {
		spent[i] -= before[i]
	}
	return spent, err
}

func cpuOf(all []*Process) (used []time.Duration, err error) {
	for _, p := range all {
		u, err := p.Usage()
		if err != nil {
			return nil, err
		}
		used = append(used, u.CPU)
	}
	return used, nil
}

// usageOf adds up a process group: what was started is the first of its own.
func usageOf(group int) (u Usage, err error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return u, err
	}
	for _, p := range all {
		s, err := p.Stat()
		if err != nil || s.PGRP != group { // it has ended, or is another's
			continue
		}
		u.CPU += time.Duration(s.CPUTime() * float64(time.Second))
		u.RSS += int64(s.ResidentMemory())
		fds, _ := p.FileDescriptorsLen()
		u.FDs += fds
	}
	if u.FDs == 0 {
		return u, fmt.Errorf("process %d is gone", group)
	}
	return u, nil
}
