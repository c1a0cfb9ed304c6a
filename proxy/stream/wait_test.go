package stream_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/upstream/expect"
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

func TestRequestWaitsForItsItem(t *testing.T) {
	const found = "found"
	for name, tt := range map[string]struct {
		after   func(s *service) // happens after 3 s
		ends    time.Duration
		status  int
		body    string
		retries bool // the response has Retry-After
	}{
		"the item appears": {func(s *service) { s.setAnswers(map[string]string{"/a": found}) }, 3*time.Second + 50*time.Millisecond, 200, found, false},
		"the item appears 60 ms after its block, in a busy index": {func(s *service) {
			s.setAnswers(nil)
			time.AfterFunc(60*time.Millisecond, func() { s.chain.set("/a", found) })
		}, 3*time.Second + 500*time.Millisecond, 200, found, false},
		"a block without it":    {func(s *service) { s.setAnswers(nil) }, 5 * time.Second, 404, missing, false},
		"a failure of the node": {func(s *service) { s.setAnswers(map[string]string{"/a": unreadable}) }, 5 * time.Second, 502, errUnreadable.Public, false},
		"a drain":               {func(s *service) { s.streams.Drain() }, 3 * time.Second, 404, missing, true},
		"a rule denies it": {func(s *service) {
			s.stack.SetLimits(limits.Limits{Access: []limits.Rule{limits.NewDeny("/a")}})
			s.streams.Readmit()
		}, 3 * time.Second, 403, "access to /a is denied here", false},
	} {
		inBubble(t, stream.Options{}, func(s *service) {
			s.chain.indexed = true
			s.setAnswers(map[string]string{"/a": missing})
			p := s.poll("/a?%57ait=5s")
			time.Sleep(3 * time.Second)
			if !p.waits() {
				s.t.Fatalf("%s: the request ended before: %d %s", name, p.to.Code, p.to.Body)
			}
			tt.after(s)
			if time.Sleep(tt.ends - 3*time.Second - 1); tt.ends > 3*time.Second && !p.waits() {
				s.t.Fatalf("%s: the request ended before %s", name, tt.ends)
			}
			if time.Sleep(time.Nanosecond); p.waits() {
				s.t.Fatalf("%s: the request waits after %s", name, tt.ends)
			}
			expect.Response(s.t, name, p.to.Code, p.to.Body.String(), tt.status, tt.body)
			expect.Equal(s.t, p.to.Header().Get("Retry-After") != "", tt.retries, "%s: has Retry-After", name)
		})
	}
}

func TestMalformedWaitIsRefused(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.chain.indexed = true
		s.setAnswers(map[string]string{"/a": "found"})
		for query, want := range map[string]string{
			"wait=20s": "found", "WAIT=1ms": "found", "wait=20": "expected a time", "wait=0s": "expected a time", "wait=20.001s": "at most 20s", "wait=": "expected a time",
			"wait=1s&wait=1s": "wait is given 2 times",
		} {
			p := s.poll("/a?" + query)
			time.Sleep(time.Second)
			if p.waits() || !strings.Contains(p.to.Body.String(), want) || (p.to.Code == 400) != (want != "found") {
				s.t.Errorf("response with %s = %d %s, want %s", query, p.to.Code, p.to.Body, want)
			}
		}
	})
}
