package heap_test

import (
	"errors"
	"testing"

	"github.com/tipcache/tipcache/cache/heap"
)

func TestAnswersMayTakeAQuarterOfTheContainersMemory(t *testing.T) {
	for name, tt := range map[string]struct {
		limit uint64
		err   error
		want  int64
	}{
		"a container":               {limit: 400 << 20, want: 100 << 20},
		"a container of more":       {limit: 8 << 30, want: 2 << 30},
		"no limit that can be read": {limit: 400 << 20, err: errors.New("no cgroup"), want: 256 << 20},
	} {
		if got := heap.ForAnswers(func() (uint64, error) { return tt.limit, tt.err }); got != tt.want {
			t.Errorf("%s: ForAnswers = %d, want %d", name, got, tt.want)
		}
	}
}
