package stream_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/proxy/stream"
)

const large = 1 << 20

func answerOf(bytes int, n int) string {
	return fmt.Sprintf(`{"n":%d,"x":%q}`, n, strings.Repeat("x", bytes))
}

func TestTopicsAndTheirAnswersAreInTheBudgetUntilTheLastFollowerLeaves(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.says(map[string]string{"/a": answerOf(large, 1), "/b": answerOf(large, 1), "/c": answerOf(large, 2)})
		one, several := s.follow("/a"), s.follow(live("/a", "/b", "/c"))
		synctest.Wait()
		if taken := s.budget.taken(); taken < 2*large || taken > 5*large/2 {
			t.Errorf("%d bytes are taken, want about those of the 2 answers that differ", taken)
		}
		s.says(map[string]string{"/a": answerOf(large, 2), "/b": answerOf(large, 2)})
		synctest.Wait()
		if taken := s.budget.taken(); taken < large || taken > 3*large/2 {
			t.Errorf("%d bytes are taken, want about those of one answer", taken)
		}
		several.leave()
		one.leave()
		if taken := s.budget.taken(); taken != 0 {
			t.Errorf("%d bytes are taken, and nobody follows", taken)
		}
	})
}

func TestAnAnswerThatAFollowerStillReadsStaysInTheBudget(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.says(map[string]string{"/a": answerOf(large, 1)})
		slow := s.follow("/a")
		slow.expect(t, answerOf(large, 1))
		read := make(chan struct{})
		slow.mu.Lock()
		slow.reads = read // not yet
		slow.mu.Unlock()
		s.says(map[string]string{"/a": answerOf(large, 2)})
		synctest.Wait() // it is about to be written to
		s.says(map[string]string{"/a": answerOf(large, 3)})
		synctest.Wait()
		taken := s.budget.taken()
		close(read)
		if taken < 2*large {
			t.Errorf("%d bytes are taken", taken)
		}
		synctest.Wait()
		if taken := s.budget.taken(); taken > 3*large/2 {
			t.Errorf("%d bytes are taken when it has read", taken)
		}
	})
}

func TestAStreamForWhichThereIsNoRoomEndsWithAdvice(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.says(map[string]string{"/a": `1`})
		s.follow("/a").expect(t, `1`)
		s.budget.leave(20 << 10) // of a topic
		full := s.follow(live("/b", "/c", "/d"))
		if events := full.events(); len(events) != 1 || !strings.HasPrefix(events[0], "retry: ") {
			t.Errorf("events %q", events)
		}
		<-full.ended
		s.follow("/a").expect(t, `1`) // which takes no more
		s.follow("/b").expect(t, ``)
	})
}

func TestAnAnswerForWhichThereIsNoRoomIsAFailureUntilThereIs(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.says(map[string]string{"/a": `1`})
		f := s.follow("/a")
		f.expect(t, `1`)
		s.budget.leave(large)
		s.says(map[string]string{"/a": answerOf(large, 1)})
		if events := f.events(); len(events) != 1 || !strings.HasPrefix(events[0], "event: failure\ndata: {\"code\":503,") {
			t.Errorf("events %q", events)
		}
		s.budget.leave(2 * large)
		time.Sleep(2 * time.Second)
		f.expect(t, answerOf(large, 1))
	})
}
