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

// usageOf adds up the process and all its descendants.
func usageOf(pid int) (u Usage, err error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return u, err
	}
	stats := map[int]procfs.ProcStat{}
	for _, p := range all {
		if s, err := p.Stat(); err == nil { // or it has ended
			stats[p.PID] = s
		}
	}
	if _, ok := stats[pid]; !ok {
		return u, fmt.Errorf("process %d is gone", pid)
	}
	for _, p := range all {
		s, ok := stats[p.PID]
		if !ok || !descends(stats, p.PID, pid) {
			continue
		}
		u.CPU += time.Duration(s.CPUTime() * float64(time.Second))
		u.RSS += int64(s.ResidentMemory())
		fds, _ := p.FileDescriptorsLen()
		u.FDs += fds
	}
	return u, nil
}

// descends says whether id is ancestor or a process it started. A parent's
// number is lower or, after a wrap, unknown: the walk has an end.
func descends(stats map[int]procfs.ProcStat, id, ancestor int) bool {
	for range len(stats) {
		if id == ancestor {
			return true
		}
		s, ok := stats[id]
		if !ok {
			return false
		}
		id = s.PPID
	}
	return false
}
