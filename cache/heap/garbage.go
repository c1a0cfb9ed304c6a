package heap

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// usualGarbage is about how many bytes of garbage pile up at least before they
// are collected. The collector alone would wait for as many as there are live ones,
// which are so few in a server that has cached little that it would collect
// hundreds of times a second under load.
const usualGarbage = 48 << 20

// GarbageFor is that number within a container's memory.
func GarbageFor(container memlimit.Provider) uint64 {
	limit, err := container()
	if err != nil {
		return usualGarbage
	}
	return min(usualGarbage, limit/16)
}

// TuneGC lets so many bytes of garbage pile up, from now on and for the
// process's life, unless GOGC says how much. The memory limit goes before both.
func TuneGC(garbage uint64) {
	if os.Getenv("GOGC") != "" {
		return
	}
	(&tuner{garbage: garbage, percent: usualPercent}).adjust()
}

// usualPercent is what GOGC is where it is not set.
const usualPercent = 100

// tuner sets the collector's percentage after each collection, for what was
// found alive.
type tuner struct {
	garbage uint64
	percent int
}

func (t *tuner) adjust() {
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	percent := percentFor(t.garbage, live[0].Value.Uint64())
	if math.Abs(float64(percent-t.percent)) > 0.1*float64(t.percent) { // setting it stops the world
		t.percent = percent
		debug.SetGCPercent(percent)
	}
	afterCollection(t.adjust)
}

// leastHeap is what the collector takes for the live bytes while there are fewer.
// A cache that fills within one cycle is for a moment allowed as great a share of
// what is alive then: until what afterCollection calls has run.
const leastHeap = 4 << 20

// leastPercent of the live bytes may be garbage however many they are. GOGC's
// usual 100 would have a process hold twice what its cache may: collecting more
// often takes the less, the less a hit allocates.
const leastPercent = 40

// percentFor is the percentage of the live bytes that makes as much garbage.
func percentFor(garbage, live uint64) int {
	return int(max(leastPercent, 100*garbage/max(live, leastHeap)))
}

// afterCollection calls f once the next collection has found what is given up
// here.
func afterCollection(f func()) {
	runtime.AddCleanup(new(*int), func(f func()) { f() }, f)
}
