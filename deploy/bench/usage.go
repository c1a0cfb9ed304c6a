package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// usage is what a process and its children have used and hold. Pages that
// several of them share count for each.
type usage struct {
	cpu time.Duration // user and system
	rss int64         // bytes
	fds int
}

// tick is the unit of CPU time in /proc on every Linux.
const tick = 10 * time.Millisecond

// procStat is what is read of /proc/PID/stat.
type procStat struct {
	parent int
	cpu    time.Duration
	pages  int64
}

// parseStat reads the text of /proc/PID/stat; see proc(5). The name in
// parentheses may hold spaces and parentheses of its own.
func parseStat(text string) (procStat, error) {
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	if len(fields) < 22 {
		return procStat{}, fmt.Errorf("too short for a process's stat: %q", text)
	}
	var n [22]int64
	for _, i := range []int{1, 11, 12, 21} { // ppid, utime, stime, rss
		v, err := strconv.ParseInt(fields[i], 10, 64)
		if err != nil {
			return procStat{}, fmt.Errorf("field %d of a process's stat: %w", i+3, err)
		}
		n[i] = v
	}
	return procStat{parent: int(n[1]), cpu: time.Duration(n[11]+n[12]) * tick, pages: n[21]}, nil
}

// usageOf adds up the process and all its descendants.
func usageOf(pid int) (usage, error) {
	stats := allStats()
	if _, ok := stats[pid]; !ok {
		return usage{}, fmt.Errorf("process %d is gone", pid)
	}
	var u usage
	for id := range stats {
		if !descends(stats, id, pid) {
			continue
		}
		u.cpu += stats[id].cpu
		u.rss += stats[id].pages * int64(os.Getpagesize())
		fds, _ := os.ReadDir(filepath.Join("/proc", strconv.Itoa(id), "fd"))
		u.fds += len(fds)
	}
	return u, nil
}

// descends says whether id is ancestor or a process it started. A parent's
// number is lower or, after a wrap, unknown: the walk has an end.
func descends(stats map[int]procStat, id, ancestor int) bool {
	for range len(stats) {
		if id == ancestor {
			return true
		}
		s, ok := stats[id]
		if !ok {
			return false
		}
		id = s.parent
	}
	return false
}

// allStats are those of all processes that are there.
func allStats() map[int]procStat {
	entries, _ := os.ReadDir("/proc")
	stats := map[int]procStat{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		text, err := os.ReadFile(filepath.Join("/proc", e.Name(), "stat"))
		if err != nil {
			continue // it has ended
		}
		if s, err := parseStat(string(text)); err == nil {
			stats[pid] = s
		}
	}
	return stats
}
