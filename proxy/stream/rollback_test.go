package stream_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/upstream/expect"
)

// withEpochs makes the chain answer epoch.height after a delay.
func (s *service) withEpochs(delay *time.Duration) {
	s.chain.read = func(_ string, height int64) (string, error) {
		epoch := s.chain.Tip().Epoch
		time.Sleep(*delay)
		return fmt.Sprintf("%d.%d", epoch, height), nil
	}
}

func TestStreamSendsNothingOfOldChainAfterRollback(t *testing.T) {
	for name, tt := range map[string]struct {
		target                   string
		first, fallen, regrown   string // as summarize returns them
		again                    string // when the new chain has the height of the old one
		readingAtRollback, delay time.Duration
	}{
		"blocks": {live("/a") + "&stream.blocks=true", "a@0.100 #100 a@0.101 #101", "a@1.99 #99", "a@1.100 #100", "a@1.101 #101", 0, 0},
		"blocks, slow to read": {
			live("/a") + "&stream.blocks=true", "a@0.100 #100 a@0.101 #101", "a@1.99 #99", "a@1.100 #100", "a@1.101 #101", 0, 300 * time.Millisecond,
		},
		"blocks, reading while the chain is rolled back": {
			live("/a") + "&stream.blocks=true", "a@0.100 #100 a@0.101 #101", "a@1.99 #99", "a@1.100 #100", "a@1.101 #101", 200 * time.Millisecond, 300 * time.Millisecond,
		},
		"answers": {live("/a"), "a@0.100 a@0.101", "a@1.99", "a@1.100", "a@1.101", 0, 300 * time.Millisecond},
		"answers, reading while the chain is rolled back": {
			live("/a"), "a@0.100 a@0.101", "a@1.99", "a@1.100", "a@1.101", 200 * time.Millisecond, 300 * time.Millisecond,
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, stream.Options{}, func(s *service) {
				s.withEpochs(&tt.delay)
				f := s.follow(tt.target)
				check := func(when, want string) {
					t.Helper()
					time.Sleep(time.Second)
					got := f.events()
					expect.NoDiff(t, strings.Join(summarize(got), " "), want, "%s", when)
					for _, e := range got {
						height := strings.Split(after(e, `"height":`), ",")[0]
						if want := "00000001"; when != "before" && strings.HasPrefix(e, "event: block") && !strings.Contains(e, `"session":"`+height+"."+want) {
							t.Errorf("%s: %q, want a session of the new chain", when, e)
						}
					}
				}
				time.Sleep(time.Second)
				s.setAnswers(nil)
				check("before", tt.first)
				if tt.readingAtRollback > 0 {
					s.setAnswers(nil)
					time.Sleep(tt.readingAtRollback)
				}
				s.rollBack(99)
				late := s.follow(tt.target)
				check("after the rollback", tt.fallen)
				expect.Equal(t, strings.Join(summarize(late.events()), " "), tt.fallen, "events of a client that connected after the rollback")
				s.setAnswers(nil)
				check("a block later", tt.regrown)
				s.setAnswers(nil)
				check("at the height before the rollback", tt.again)
			})
		})
	}
}

func TestAnswerAtHeightIsReadAgainAfterRollback(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.chain.pinned = 100
		delay := time.Duration(0)
		s.withEpochs(&delay)
		f := s.follow(live("/a"))
		if got := strings.Join(summarize(f.events()), " "); got != "a@0.100" {
			t.Fatalf("first events = %q, want a@0.100", got)
		}
		s.setAnswers(nil)
		time.Sleep(time.Minute)
		if got := summarize(f.events()); len(got) > 0 {
			t.Errorf("events = %q, want none: the answer never changes", got)
		}
		s.rollBack(100)
		time.Sleep(time.Second)
		expect.Equal(t, strings.Join(summarize(f.events()), " "), "a@1.100", "events after a rollback")
		s.chain.pinned = 0 // as for a walk, which ends with the epoch
		s.rollBack(100)
		time.Sleep(time.Second)
		expect.Equal(t, strings.Join(summarize(f.events()), " "), "a@2.100", "events after the next rollback")
		s.setAnswers(nil)
		time.Sleep(time.Second)
		expect.Equal(t, strings.Join(summarize(f.events()), " "), "a@2.101", "events of the next block")
	})
}
