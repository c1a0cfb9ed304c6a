package rig

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// clockFile is the variable of the environment that names the file with the offset, in
// seconds, that a program of WithClock adds to the wall clock.
const clockFile = "BENCH_CLOCK"

// What is laid over the tree: time.Now of the standard library adds an offset, so that
// every package has it, and the program follows the file. The monotonic clock goes on, as
// it does where an operator or NTP sets a clock.
const (
	timeNow, timeNowOffset = "	sec, nsec, mono := runtimeNow()\n", timeNow + "	sec += Offset.Load()\n"

	timeOffset = `package time

import "sync/atomic"

// Offset is what Now adds to the wall clock, in seconds.
var Offset atomic.Int64
`
	mainOffset = `package main

import (
	"os"
	"strconv"
	"time"
)

func init() {
	go func() {
		for ; ; time.Sleep(10 * time.Millisecond) {
			text, _ := os.ReadFile(os.Getenv("` + clockFile + `"))
			if offset, err := strconv.ParseInt(string(text), 10, 64); err == nil {
				time.Offset.Store(offset)
			}
		}
	}()
}
`
)

// WithClock builds tipcache from the tree so that its wall clock can be set.
func (r *Rig) WithClock(ctx context.Context) (program string, err error) {
	where, err := Output(ctx, "", "go", "list", "-f", "{{.Dir}}", "time", tipcache)
	if err != nil {
		return "", err
	}
	dirs := strings.Fields(where)
	source, err := os.ReadFile(filepath.Join(dirs[0], "time.go"))
	if err != nil {
		return "", err
	}
	if strings.Count(string(source), timeNow) != 1 {
		return "", fmt.Errorf("time.Now of %s is not as it was", dirs[0])
	}
	replace := map[string]string{}
	for at, text := range map[string]string{
		filepath.Join(dirs[0], "time.go"):   strings.Replace(string(source), timeNow, timeNowOffset, 1),
		filepath.Join(dirs[0], "offset.go"): timeOffset,
		filepath.Join(dirs[1], "offset.go"): mainOffset,
	} {
		if replace[at], err = r.File(fmt.Sprintf("overlay-%d.go", len(replace)), text); err != nil {
			return "", err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	file, err := r.File("overlay.json", string(overlay))
	if err != nil {
		return "", err
	}
	program = filepath.Join(r.Dir, "tipcache-clock")
	_, err = Output(ctx, "", "go", "build", "-overlay", file, "-o", program, tipcache)
	return program, err
}

// SetClock sets the wall clock of the programs of WithClock that have the setting in
// their environment.
func (r *Rig) SetClock(name string, offset time.Duration) (setting string, err error) {
	file, err := r.File(name+".clock", strconv.FormatInt(int64(offset/time.Second), 10))
	return clockFile + "=" + file, err
}
