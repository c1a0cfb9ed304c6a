package stream_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/upstream/expect"
)

const large = 1 << 20

func answerOf(bytes int, n int) string {
	return fmt.Sprintf(`{"n":%d,"x":%q}`, n, strings.Repeat("x", bytes))
}

func TestTopicsAndAnswersReserveMemoryUntilLastFollowerLeaves(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.setAnswers(map[string]string{"/a": answerOf(large, 1), "/b": answerOf(large, 1), "/c": answerOf(large, 2)})
		one, several := s.follow("/a"), s.follow(live("/a", "/b", "/c"))
		synctest.Wait()
		if reserved := s.budget.reserved(); reserved < 3*large || reserved > 7*large/2 {
			t.Errorf("reserved %d bytes, want about 3 answers of %d", reserved, large)
		}
		s.setAnswers(map[string]string{"/a": `1`, "/b": answerOf(large, 2)})
		synctest.Wait()
		if reserved := s.budget.reserved(); reserved < 2*large || reserved > 5*large/2 {
			t.Errorf("reserved %d bytes, want about 2 answers of %d", reserved, large)
		}
		several.leave()
		one.leave()
		expect.Equal(t, s.budget.reserved(), 0, "reserved bytes after the last follower left")
	})
}

func TestAnswerStaysReservedWhileClientReadsIt(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.setAnswers(map[string]string{"/a": answerOf(large, 1)})
		slow := s.follow("/a")
		slow.expect(t, answerOf(large, 1))
		read := make(chan struct{})
		slow.mu.Lock()
		slow.reads = read // blocks its writes
		slow.mu.Unlock()
		s.setAnswers(map[string]string{"/a": answerOf(large, 2)})
		synctest.Wait() // the write to slow is pending
		s.setAnswers(map[string]string{"/a": answerOf(large, 3)})
		synctest.Wait()
		reserved := s.budget.reserved()
		close(read)
		if reserved < 2*large {
			t.Errorf("reserved %d bytes while a client reads the old answer, want at least %d", reserved, 2*large)
		}
		synctest.Wait()
		if reserved := s.budget.reserved(); reserved > 3*large/2 {
			t.Errorf("reserved %d bytes after the client read the answer, want at most %d", reserved, 3*large/2)
		}
	})
}

func TestStreamBeyondMemoryBudgetEndsWithRetry(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		s.follow("/a").expect(t, `1`)
		s.budget.leave(20 << 10) // enough for one topic
		full := s.follow(live("/b", "/c", "/d"))
		if events := full.events(); len(events) != 1 || !strings.HasPrefix(events[0], "retry: ") {
			t.Errorf("events = %q, want one retry event", events)
		}
		<-full.ended
		s.follow("/a").expect(t, `1`) // uses the existing topic
		s.follow("/b").expect(t, ``)
	})
}

func TestAnswerBeyondMemoryBudgetFailsUntilItFits(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		f := s.follow("/a")
		f.expect(t, `1`)
		s.budget.leave(large)
		s.setAnswers(map[string]string{"/a": answerOf(large, 1)})
		if events := f.events(); len(events) != 1 || !strings.HasPrefix(events[0], "event: failure\ndata: {\"code\":503,") {
			t.Errorf("events = %q, want one retry event", events)
		}
		s.budget.leave(2 * large)
		time.Sleep(2 * time.Second)
		f.expect(t, answerOf(large, 1))
	})
}

func TestAnswerIsReleasedAfterFailureAtItsOwnBlock(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		var fails atomic.Bool
		s.chain.read = func(_ string, height int64) (string, error) {
			if fails.Load() {
				return "", errUnreadable
			}
			return answerOf(large, int(height)), nil
		}
		f := s.follow("/a?stream.blocks=true")
		synctest.Wait()
		for _, failing := range []bool{true, false} {
			fails.Store(failing)
			s.chain.mu.Lock()
			s.chain.moveTo(100, 0) // read again at the same block
			s.chain.mu.Unlock()
			time.Sleep(10 * time.Second)
		}
		s.setAnswers(nil)
		time.Sleep(10 * time.Second)
		f.leave()
		expect.Equal(t, s.budget.reserved(), 0, "reserved bytes after the last follower left")
	})
}
