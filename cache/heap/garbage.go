package heap

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// usualGarbage is the minimum number of bytes allocated between two collections. By default the collector allows
// as many as are live, which would be hundreds of collections a second in a busy server that has cached little.
const usualGarbage = 48 << 20

// leastGarbage is the minimum for a small cache.
const leastGarbage = 16 << 20

// GarbageFor returns how many bytes may be allocated between two collections, within a container's memory and a
// maximum size of cached answers: at most half of answers, or leastGarbage.
func GarbageFor(container memlimit.Provider, answers int64) uint64 {
	usual := uint64(min(usualGarbage, max(leastGarbage, answers/2)))
	limit, err := container()
	if err != nil {
		return usual
	}
	return min(usual, limit/16)
}

// TuneGC lets garbage bytes be allocated between two collections, for the rest of the process, unless GOGC is set.
// The memory limit must be set before; it takes precedence.
//
// It also makes the runtime return free memory to the operating system. By default it would keep a tenth of a heap
// that may grow, and fragments between objects.
func TuneGC(garbage uint64) {
	if os.Getenv("GOGC") != "" {
		return
	}
	(&tuner{garbage: garbage, percent: usualPercent, most: debug.SetMemoryLimit(-1)}).adjust()
}

// usualPercent is the default of GOGC.
const usualPercent = 100

// tuner sets the collector's percentage and memory limit after each collection, according to the live bytes.
type tuner struct {
	garbage uint64
	percent int
	limit   int64
	most    int64 // maximum of limit
}

// Runtime metrics about the last collection and about memory.
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
	samples := make([]metrics.Sample, len(measures))
	for i, name := range measures {
		samples[i].Name = name
	}
	metrics.Read(samples)
	at := func(i int) uint64 { return samples[i].Value.Uint64() }
	percent := percentFor(t.garbage, at(liveHeap), at(scannedStacks)+at(scannedGlobals))
	if differs(int64(percent), int64(t.percent)) {
		t.percent = percent
		debug.SetGCPercent(percent)
	}
	limit := min(t.most, limitFor(t.garbage, at(liveHeap), memoryOutsideHeap(at)))
	if differs(limit, t.limit) {
		t.limit = limit
		debug.SetMemoryLimit(limit)
	}
	afterCollection(t.adjust)
}

func memoryOutsideHeap(at func(measure int) uint64) uint64 {
	return at(allMemory) - at(released) - at(heapObjects) - at(heapUnused) - at(heapFree)
}

// differs reports whether a setting differs enough from the current one, by a twentieth, to stop the world for it.
func differs(setting, current int64) bool {
	return math.Abs(float64(setting-current)) > float64(current)/20
}

// leastHeap is the live heap that the collector assumes at least. A cache that fills within one cycle may briefly
// allocate too much, until adjust has run.
const leastHeap = 4 << 20

// leastPercent is the minimum of garbage in percent of the live bytes. With GOGC's default of 100, a process would
// hold twice its cache; collecting more often is cheap because hits allocate little.
const leastPercent = 40

// garbageFor returns how many bytes may be allocated with live bytes in use.
func garbageFor(garbage, live uint64) uint64 { return max(garbage, live*leastPercent/100) }

// percentFor returns the percentage that allows this garbage. The collector takes it of live and scanned bytes.
func percentFor(garbage, live, scanned uint64) int {
	of := max(live+scanned, leastHeap)
	return int((100*garbageFor(garbage, live) + of/2) / of)
}

// limitFor returns the memory limit for garbage and live bytes, plus a tenth, because some of the heap is always
// fragmented and the percentage should decide. The runtime returns free memory beyond the limit as the heap grows.
func limitFor(garbage, live, other uint64) int64 {
	return int64((live+garbageFor(garbage, live))*11/10 + other)
}

func afterCollection(f func()) {
	runtime.AddCleanup(new(*int), func(f func()) { f() }, f)
}
