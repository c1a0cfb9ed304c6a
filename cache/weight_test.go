package cache

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
)

// measuring is an environment variable, set in the process that measures its heap.
const measuring = "TIPCACHE_TEST_MEASURING"

// Other tests leave garbage on the heap, so the test measures in a process of its own.
func TestEntriesAreCountedWithTheirHeapSize(t *testing.T) {
	t.Parallel()
	if os.Getenv(measuring) == "" {
		process := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run", "^"+t.Name()+"$")
		process.Env = append(os.Environ(), measuring+"=1")
		if out, err := process.CombinedOutput(); err != nil || !bytes.Contains(out, []byte("--- PASS: "+t.Name())) {
			t.Fatalf("measuring process: %v\n%s", err, out)
		}
		return
	}
	for _, size := range []int{0, 100, 700, 2000, 8000, 50_000} {
		n := min(20_000, 100_000_000/(size+500))
		entries := newMemory(1<<40, 1<<40, &counts{})
		before := expect.LiveHeap()
		for i := range n {
			key := fmt.Sprintf("documented/staking/validators/0x%040x@%d", i, i)
			entries.put(&Query{Key: key}, &Entry{Content: NewContent(200, "application/json", "", make([]byte, size), 1), Height: int64(i + 1), ReadAt: time.Now()})
		}
		entries.CleanUp()
		used, weight := float64(expect.LiveHeap()-before)/float64(n), float64(entries.WeightedSize())/float64(n)
		if used < 0.9*weight || used > 1.1*weight {
			t.Errorf("heap bytes per entry with a body of %d bytes = %.0f, want its weight %.0f within a tenth", size, used, weight)
		}
		runtime.KeepAlive(entries)
	}
}
