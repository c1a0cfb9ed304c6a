package cache

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"
)

// weighing is the environment variable that says that a process is there for the weighing alone.
const weighing = "TIPCACHE_TEST_WEIGHING"

// The heap is the whole process's, and other tests leave what is freed late: a
// process that has run nothing else weighs.
func TestEntriesAreCountedWithTheirHeapSize(t *testing.T) {
	t.Parallel()
	if os.Getenv(weighing) == "" {
		alone := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^"+t.Name()+"$")
		alone.Env = append(os.Environ(), weighing+"=1")
		if out, err := alone.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
			t.Fatalf("%v\n%s", err, out)
		}
		return
	}
	for _, size := range []int{0, 100, 700, 2000, 8000, 50_000} {
		n := min(20_000, 100_000_000/(size+500))
		entries, made := newMemory(1<<40, 1<<40, &counts{}), 0
		before := heapInUse()
		for ; made < n; made++ {
			key := fmt.Sprintf("documented/staking/validators/0x%040x@%d", made, made)
			entries.put(&Query{Key: key}, &Entry{Content: NewContent(200, "application/json", "", make([]byte, size), 1), Height: int64(made + 1), ReadAt: time.Now()})
		}
		entries.CleanUp()
		took, weighed := float64(heapInUse()-before)/float64(n), float64(entries.WeightedSize())/float64(n)
		if took < 0.9*weighed || took > 1.1*weighed {
			t.Errorf("an entry with a body of %d bytes takes %.0f bytes of the heap, want within a tenth of its weight, %.0f", size, took, weighed)
		}
		runtime.KeepAlive(entries)
	}
}

func heapInUse() int64 {
	runtime.GC()
	runtime.GC() // what pools gave up at the first
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
