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

// Usage adds up the process and its children: what the rig starts is the first of
// a process group of its own.
func (p *Process) Usage() (u Usage, err error) {
	group := p.running.Load().cmd.Process.Pid
	all, err := procfs.AllProcs()
	if err != nil {
		return u, err
	}
	for _, one := range all {
		s, err := one.Stat()
		if err != nil || s.PGRP != group { // it has ended, or is another's
			continue
		}
		u.CPU += time.Duration(s.CPUTime() * float64(time.Second))
		u.RSS += int64(s.ResidentMemory())
		fds, _ := one.FileDescriptorsLen()
		u.FDs += fds
	}
	if u.FDs == 0 {
		return u, fmt.Errorf("%s is gone%s", p.name, p.lastWords())
	}
	return u, nil
}

// Spent is the CPU time that processes use while something is done.
func Spent(do func(), all ...*Process) []time.Duration {
	before := make([]time.Duration, len(all))
	for i, p := range all {
		before[i] = Must(p.Usage()).CPU
	}
	do()
	spent := make([]time.Duration, len(all))
	for i, p := range all {
		spent[i] = Must(p.Usage()).CPU - before[i]
	}
	return spent
}
