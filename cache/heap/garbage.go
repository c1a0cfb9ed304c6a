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

// leastGarbage is that number beside however few bytes of answers.
const leastGarbage = 16 << 20

// GarbageFor is that number within a container's memory, where so many bytes of answers are kept
// at most: there is no more garbage than answers.
func GarbageFor(container memlimit.Provider, answers int64) uint64 {
	usual := uint64(min(usualGarbage, max(leastGarbage, answers)))
	limit, err := container()
	if err != nil {
		return usual
	}
	return min(usual, limit/16)
}

// TuneGC lets so many bytes of garbage pile up, from now on and for the
// process's life, unless GOGC says how much. The memory limit, which is set now if one
// is to be, goes before both.
//
// It also has the runtime give the operating system back what was in use once and is
// free: it would keep a tenth of a heap that may grow, and what is free between pieces
// that are not.
func TuneGC(garbage uint64) {
	if os.Getenv("GOGC") != "" {
		return
	}
	(&tuner{garbage: garbage, percent: usualPercent, most: debug.SetMemoryLimit(-1)}).adjust()
}

// usualPercent is what GOGC is where it is not set.
const usualPercent = 100

// tuner sets the collector's percentage and a limit after each collection, for what was
// found alive.
type tuner struct {
	garbage uint64
	percent int
	limit   int64
	most    int64 // that the limit may be
}

// The runtime's measures of what the last collection found, and of what it holds itself.
const (
	liveHeap = iota
	scannedStacks
	scannedGlobals
	allMemory
	released
	heapObjects
	heapUnused
	heapFree
)

var measures = []string{
	liveHeap: "/gc/heap/live:bytes", scannedStacks: "/gc/scan/stack:bytes", scannedGlobals: "/gc/scan/globals:bytes",
	allMemory: "/memory/classes/total:bytes", released: "/memory/classes/heap/released:bytes",
	heapObjects: "/memory/classes/heap/objects:bytes", heapUnused: "/memory/classes/heap/unused:bytes", heapFree: "/memory/classes/heap/free:bytes",
}

func (t *tuner) adjust() {
	told := make([]metrics.Sample, len(measures))
	for i, name := range measures {
		told[i].Name = name
	}
	metrics.Read(told)
	at := func(i int) uint64 { return told[i].Value.Uint64() }
	percent := percentFor(t.garbage, at(liveHeap), at(scannedStacks)+at(scannedGlobals))
	if math.Abs(float64(percent-t.percent)) > 0.1*float64(t.percent) { // setting it stops the world
		t.percent = percent
		debug.SetGCPercent(percent)
	}
	besides := at(allMemory) - at(released) - at(heapObjects) - at(heapUnused) - at(heapFree)
	limit := min(t.most, limitFor(t.garbage, at(liveHeap), besides))
	if math.Abs(float64(limit-t.limit)) > 0.05*float64(t.limit) {
		t.limit = limit
		debug.SetMemoryLimit(limit)
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

// garbageFor is how many bytes of garbage may pile up beside so many live ones.
func garbageFor(garbage, live uint64) uint64 { return max(garbage, live*leastPercent/100) }

// percentFor is the percentage that makes as much garbage, of the live bytes and of the
// others that the collector scans: it adds both.
func percentFor(garbage, live, scanned uint64) int {
	of := max(live+scanned, leastHeap)
	return int((100*garbageFor(garbage, live) + of/2) / of)
}

// limitFor is the memory that garbage and what is alive take, with a tenth of both more: some
// of the heap is always free between what is not, and the collector is to work by the
// percentage. The runtime gives back what is free beyond the limit, as the heap grows.
func limitFor(garbage, live, besides uint64) int64 {
	return int64((live+garbageFor(garbage, live))*11/10 + besides)
}

// afterCollection calls f once the next collection has found what is given up
// here.
func afterCollection(f func()) {
	runtime.AddCleanup(new(*int), func(f func()) { f() }, f)
}
