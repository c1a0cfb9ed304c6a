package stream_test

import (
	"context"
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

func TestPollThatWaitsEndsWithTheNewChainsAnswer(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		next := s.poll("/a?since=0").expect(200, `1`)
		p := s.poll(next)
		time.Sleep(5 * time.Second)
		s.rollBack(90)
		if time.Sleep(2 * time.Second); !p.waits() {
			s.t.Fatal("poll ended although the new chain has the same answer")
		}
		s.setAnswers(map[string]string{"/a": `2`})
		time.Sleep(2 * time.Second)
		expect.Equal(t, heightIn(p.expect(200, `2`)), "91", "height of the next URL")
	})
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

func TestTopicIsReadAgainWhenTheTipIsKnown(t *testing.T) {
	for name, tt := range map[string]struct{ epoch, height int64 }{"after an outage": {0, 101}, "after a rollback": {1, 98}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, stream.Options{}, func(s *service) {
				s.chain.fresh = time.Minute
				s.chain.read = func(_ string, height int64) (string, error) { return fmt.Sprint(height), nil }
				plain, frames := s.follow("/a"), s.follow(live("/b")+"&stream.blocks=true")
				time.Sleep(time.Second)
				s.loseTip(tt.epoch)
				time.Sleep(25 * time.Second)
				late := s.follow(live("/c") + "&stream.blocks=true")
				time.Sleep(time.Second)
				for _, f := range []*follower{plain, frames, late} {
					f.events()
				}
				s.findTip(tt.height)
				time.Sleep(2 * time.Second)
				plain.expect(t, fmt.Sprint(tt.height))
				for path, f := range map[string]*follower{"b": frames, "c": late} {
					expect.NoDiff(t, strings.Join(summarize(f.events()), " "), fmt.Sprintf("%s@%d #%d", path, tt.height, tt.height), "events of /%s", path)
				}
			})
		})
	}
}

func TestNoBlockEventNamesHeightZero(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.chain.executed = func(context.Context) { time.Sleep(900 * time.Millisecond) } // the tip moves meanwhile
		s.loseTip(0)
		f := s.follow(live("/a") + "&stream.blocks=true")
		time.Sleep(500 * time.Millisecond)
		s.findTip(101)
		for range 5 {
			time.Sleep(500 * time.Millisecond)
			s.setAnswers(nil)
		}
		time.Sleep(5 * time.Second)
		events := f.events()
		for _, e := range events {
			if strings.HasPrefix(e, "event: block") && strings.Contains(e, `"height":0`) {
				t.Errorf("event = %q, want no block 0", e)
			}
		}
		if len(events) == 0 {
			t.Error("no events")
		}
	})
}
