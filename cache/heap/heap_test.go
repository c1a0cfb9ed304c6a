package heap_test

import (
	"errors"
	"testing"

	"github.com/tipcache/tipcache/cache/heap"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestCacheTakesAQuarterOfContainerMemory(t *testing.T) {
	for name, tt := range map[string]struct {
		limit uint64
		err   error
		want  int64
	}{
		"a container":         {limit: 400 << 20, want: 100 << 20},
		"a large container":   {limit: 8 << 30, want: 2 << 30},
		"an unreadable limit": {limit: 400 << 20, err: errors.New("no cgroup"), want: 256 << 20},
	} {
		expect.Equal(t, heap.ForAnswers(func() (uint64, error) { return tt.limit, tt.err }), tt.want, "ForAnswers in %s", name)
	}
}
