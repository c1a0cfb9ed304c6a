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
func (r *Rig) WithClock(ctx context.Context) (program string) {
	dirs := strings.Fields(Must(Output(ctx, "", "go", "list", "-f", "{{.Dir}}", "time", tipcache)))
	source := string(Must(os.ReadFile(filepath.Join(dirs[0], "time.go"))))
	if strings.Count(source, timeNow) != 1 {
		Check(fmt.Errorf("time.Now of %s is not as it was", dirs[0]))
	}
	overlay := Must(json.Marshal(map[string]any{"Replace": map[string]string{
		filepath.Join(dirs[0], "time.go"):   r.File("overlay-now.go", strings.Replace(source, timeNow, timeNowOffset, 1)),
		filepath.Join(dirs[0], "offset.go"): r.File("overlay-time.go", timeOffset),
		filepath.Join(dirs[1], "offset.go"): r.File("overlay-main.go", mainOffset),
	}}))
	program = filepath.Join(r.Dir, "tipcache-clock")
	_ = Must(Output(ctx, "", "go", "build", "-overlay", r.File("overlay.json", string(overlay)), "-o", program, tipcache))
	return program
}

// SetClock sets the wall clock of the programs of WithClock that have the setting in
// their environment.
func (r *Rig) SetClock(name string, offset time.Duration) (setting string) {
	return clockFile + "=" + r.File(name+".clock", strconv.FormatInt(int64(offset/time.Second), 10))
}
