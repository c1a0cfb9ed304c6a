package stream_test

import (
	"slices"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy/stream"
)

// Nodes index a block up to 40 ms after its state can be read.
func TestItemsAreReadOnceTheNodesHaveIndexedABlock(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.chain.indexed = true
		f := s.follow("/a")
		s.readers()
		time.Sleep(time.Second)
		if all := s.readers(); len(all) != 1 {
			t.Fatalf("reads at the first block = %v, want 1", all)
		}
		f.data()
		for range 3 {
			s.setAnswers(map[string]string{"/a": time.Now().String()})
			time.Sleep(40 * time.Millisecond)
			if all := s.readers(); len(all) != 0 {
				t.Errorf("reads within 40 ms after a block = %v, want none", all)
			}
			time.Sleep(20 * time.Millisecond)
			if data, _ := f.data(); len(s.readers()) != 1 || len(data) != 1 || !slices.Contains(data, s.chain.answers["/a"]) {
				t.Errorf("events = %v, want the answer of the block", data)
			}
		}
	})
}
