package stream_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

// summarize abbreviates events: path@n for an answer, path! for a failure, and #n for a block.
func summarize(events []string) (all []string) {
	for _, e := range events {
		path, _, _ := strings.Cut(strings.TrimPrefix(after(e, `{"path":"/`), ""), `"`)
		switch {
		case strings.HasPrefix(e, "event: failure"):
			all = append(all, path+"!")
		case strings.HasPrefix(e, "event: block"):
			all = append(all, "#"+strings.Split(after(e, `"height":`), ",")[0])
		case strings.Contains(e, "data:"):
			all = append(all, path+"@"+strings.Trim(after(e, `"answer":`), "}\n"))
		}
	}
	return all
}

func after(text, mark string) string {
	_, rest, _ := strings.Cut(text, mark)
	return rest
}

func TestBlockEventFollowsItsAnswers(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		takes := map[string]time.Duration{}
		fails := map[string]bool{}
		s.chain.read = func(path string, height int64) (string, error) {
			time.Sleep(takes[path])
			if fails[path] {
				return "", errUnreadable
			}
			return strconv.FormatInt(height, 10), nil
		}
		f := s.follow(live("/a", "/b") + "&stream.blocks=true")
		check := func(when string, want ...string) {
			t.Helper()
			got := summarize(f.events())
			slices.SortStableFunc(got, func(a, b string) int { // answers have no order
				if a[0] == '#' || b[0] == '#' {
					return 0
				}
				return strings.Compare(a, b)
			})
			expect.NoDiff(t, got, want, "%s", when)
		}
		check("at first", "a@100", "b@100", "#100")
		takes["/b"] = 300 * time.Millisecond
		s.setAnswers(nil)
		check("while one path is read")
		time.Sleep(300 * time.Millisecond)
		check("when it is read", "a@101", "b@101", "#101")
		takes["/b"] = 700 * time.Millisecond
		s.setAnswers(nil)
		time.Sleep(500 * time.Millisecond)
		check("when one is late", "a@102", "b!", "#102")
		time.Sleep(time.Second)
		check("a late answer belongs to no frame")
		takes["/b"], fails["/a"] = 0, true
		s.setAnswers(nil)
		time.Sleep(500 * time.Millisecond)
		check("when one fails", "a!", "b@103", "#103")
		s.setAnswers(nil)
		time.Sleep(500 * time.Millisecond)
		check("when it still fails", "a!", "b@104", "#104")
		fails["/a"] = false
		s.setAnswers(nil)
		time.Sleep(2 * time.Second)
		check("when all is well", "a@105", "b@105", "#105")
	})
}

func TestBlockEventsComeAlthoughBlocksAreFasterThanPatience(t *testing.T) {
	inBubble(t, stream.Options{Patience: time.Second}, func(s *service) {
		s.chain.read = func(path string, height int64) (string, error) {
			if path == "/b" {
				return "", errUnreadable
			}
			return strconv.FormatInt(height, 10), nil
		}
		f := s.follow(live("/a", "/b") + "&stream.blocks=true")
		for range 20 {
			time.Sleep(500 * time.Millisecond)
			s.setAnswers(nil)
		}
		blocks := 0
		for _, event := range summarize(f.events()) {
			if event[0] == '#' {
				blocks++
			}
		}
		if blocks < 4 { // one in two seconds
			t.Errorf("block events in 10 s = %d, want at least 4", blocks)
		}
	})
}

var answerOfBlock = regexp.MustCompile(`^(\w)@(\d+)$`)

func TestFramesNeverMixBlocks(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		chance := rand.New(rand.NewPCG(1, 2))
		s.chain.read = func(path string, height int64) (string, error) {
			s.chain.mu.Lock()
			dice, wait := chance.IntN(20), time.Duration(chance.IntN(800))*time.Millisecond
			s.chain.mu.Unlock()
			switch {
			case dice == 0:
				time.Sleep(4 * wait)
			case dice == 1:
				return "", errors.New("fails")
			case dice < 10:
				time.Sleep(wait / 4)
			}
			return strconv.FormatInt(height/int64(path[1]-'a'+1), 10), nil // /b and /c do not change at every block
		}
		clients := make([]*follower, 3)
		for i := range clients {
			clients[i] = s.follow(live("/a", "/b", "/c") + "&stream.blocks=true")
		}
		frames, whole := 0, 0
		for range 4000 {
			s.setAnswers(nil)
			time.Sleep(2 * time.Second)
		}
		synctest.Wait()
		for _, f := range clients {
			page := map[string]string{}
			for _, e := range summarize(f.events()) {
				if m := answerOfBlock.FindStringSubmatch(e); m != nil {
					page[m[1]] = m[2]
				} else if path, failed := strings.CutSuffix(e, "!"); failed {
					delete(page, path)
				} else {
					frames++
					height, _ := strconv.ParseInt(e[1:], 10, 64)
					for path, answer := range page {
						if want := fmt.Sprint(height / int64(path[0]-'a'+1)); answer != want {
							t.Fatalf("at block %d, the answer of %s = %s, want %s", height, path, answer, want)
						}
					}
					if len(page) == 3 {
						whole++
					}
				}
			}
		}
		if frames < 10_000 || whole < frames/2 {
			t.Errorf("%d frames, %d of them without failures, want at least 10000 and half of them", frames, whole)
		}
	})
}

func TestBlockEventsStartAtSessionBlock(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.chain.read = func(_ string, height int64) (string, error) {
			if height == 101 {
				time.Sleep(300 * time.Millisecond)
			}
			return strconv.FormatInt(height, 10), nil
		}
		target := live("/a") + "&stream.blocks=true"
		if e := s.follow(target).events(); !strings.Contains(strings.Join(e, ""), `{"height":100,"session":"100.000000000000","evm_block":1100}`) {
			t.Errorf("events = %q, want block 100 with its session", e)
		}
		s.setAnswers(nil)
		for token, want := range map[string]string{"": "[a@100 #100]", "100.00000000": "[a@100 #100]", "101.00000000": "[]", "900.00000000": "[]", "101.0A000000": "[a@100 #100]"} {
			f := s.follow(target, "X-Session", token)
			expect.Equal(t, fmt.Sprint(summarize(f.events())), want, "session %q: events", token)
			if reset := f.Header().Get("X-Session-Reset"); (reset == "true") != strings.Contains(token, "A") {
				t.Errorf("session %q: X-Session-Reset = %q", token, reset)
			}
			defer func() {
				if got := fmt.Sprint(summarize(f.events())); !strings.HasSuffix(got, "a@101 #101]") {
					t.Errorf("session %q: later events = %s, want a@101 #101 at the end", token, got)
				}
			}()
		}
		time.Sleep(time.Second)
	})
}

func TestStreamStartsAtTheMinimumBlock(t *testing.T) {
	for _, target := range []string{"/a", live("/a"), live("/a") + "&stream.blocks=true"} {
		inBubble(t, stream.Options{}, func(s *service) {
			s.chain.read = func(_ string, height int64) (string, error) {
				time.Sleep(300 * time.Millisecond)
				return strconv.FormatInt(height, 10), nil
			}
			s.follow(live("/a"))
			time.Sleep(time.Second) // so that there is an answer
			s.setAnswers(nil)
			s.chain.min = 101
			f := s.follow(target)
			time.Sleep(time.Second)
			if got := strings.Join(f.events(), " "); !strings.Contains(got, "id: 101.") || strings.Contains(got, "id: 100.") {
				t.Errorf("%s: events = %q, want block 101 only", target, got)
			}
		})
	}
}

func TestStreamWaitsForSessionBlock(t *testing.T) {
	for _, target := range []string{"/a", live("/a"), live("/a", "/b") + "&stream.blocks=true", "/a?stream.session=102.00000000"} {
		inBubbleWith(t, stream.Options{}, web.Options{Settings: web.Settings{SessionCookie: true}}, func(s *service) {
			s.chain.read = func(_ string, height int64) (string, error) { return strconv.FormatInt(height, 10), nil }
			s.setAnswers(nil)
			s.follow(live("/a", "/b")) // so that there are answers
			headers := map[bool][]string{false: {"X-Session", "102.00000000"}, true: {"Cookie", "tipcache-session-test-1=102"}}
			for _, cookie := range []bool{false, true} {
				f := s.follow(target, headers[cookie]...)
				if got := f.events(); len(got) > 0 {
					t.Errorf("%s: events at once = %q, want none", target, got)
				}
				time.Sleep(499 * time.Millisecond)
				if got := f.events(); len(got) > 0 {
					t.Errorf("%s: events after 499 ms = %q, want none", target, got)
				}
				time.Sleep(time.Millisecond)
				if got := strings.Join(f.events(), " "); !strings.Contains(got, "id: 101.") {
					t.Errorf("%s: events after 500 ms = %q, want block 101", target, got)
				}
			}
			f := s.follow(target, headers[false]...)
			time.Sleep(100 * time.Millisecond)
			s.setAnswers(nil)
			if got := strings.Join(f.events(), " "); !strings.Contains(got, "id: 102.") || strings.Contains(got, "id: 101.") {
				t.Errorf("%s: events after block 102 = %q, want block 102 only", target, got)
			}
			if got := strings.Join(s.follow(target, "X-Session", "103.0A000000").events(), " "); !strings.Contains(got, "id: 102.") {
				t.Errorf("%s: events after a rollback = %q, want block 102", target, got)
			}
		})
	}
}

func TestBlockEventNamesTheExecutionBlockReadOnceForAllClients(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		var reads, takes atomic.Int64
		takes.Store(int64(10 * time.Millisecond))
		s.chain.executed = func(ctx context.Context) {
			reads.Add(1)
			select {
			case <-time.After(time.Duration(takes.Load())):
			case <-ctx.Done():
			}
		}
		s.setAnswers(map[string]string{"/a": "1"})
		clients := make([]*follower, 5)
		for i := range clients {
			clients[i] = s.follow("/a?stream.blocks=true")
		}
		for block, want := range []string{`,"evm_block":1101}`, `,"evm_block":1102}`, `"}`} { // the last one cannot be read in time
			if block == 2 {
				takes.Store(int64(time.Hour))
			}
			if block > 0 {
				s.setAnswers(nil)
			}
			time.Sleep(time.Second - time.Millisecond)
			for _, f := range clients {
				events := f.events()
				if len(events) == 0 || !strings.HasSuffix(events[len(events)-1], want) {
					t.Errorf("events of block %d = %q, want %s at the end", 101+block, events, want)
				}
			}
			expect.Equal(t, reads.Load(), int64(block+1), "reads of execution blocks until block %d", block+1)
		}
	})
}
