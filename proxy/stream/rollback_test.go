package stream_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/proxy/stream"
)

// withEpochs has the chain answer with its epoch and height, after a time.
func (s *service) withEpochs(takes *time.Duration) {
	s.chain.read = func(_ string, height int64) (string, error) {
		epoch := s.chain.Tip().Epoch
		time.Sleep(*takes)
		return fmt.Sprintf("%d.%d", epoch, height), nil
	}
}

func TestStreamTellsNothingOfTheDeadChainAfterARollback(t *testing.T) {
	for name, tt := range map[string]struct {
		target                   string
		first, fallen, regrown   string // events as in short
		again                    string // once the new chain is as high as the dead one was
		readingAtRollback, takes time.Duration
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
				s.withEpochs(&tt.takes)
				f := s.follow(tt.target)
				expect := func(when, want string) {
					t.Helper()
					time.Sleep(time.Second)
					got := f.events()
					if diff := cmp.Diff(want, strings.Join(inShort(got), " ")); diff != "" {
						t.Errorf("%s (-want +got):\n%s", when, diff)
					}
					for _, e := range got {
						height := strings.Split(after(e, `"height":`), ",")[0]
						if want := "00000001"; when != "before" && strings.HasPrefix(e, "event: block") && !strings.Contains(e, `"session":"`+height+"."+want) {
							t.Errorf("%s: %q, want a session of the new chain", when, e)
						}
					}
				}
				time.Sleep(time.Second)
				s.says(nil)
				expect("before", tt.first)
				if tt.readingAtRollback > 0 {
					s.says(nil)
					time.Sleep(tt.readingAtRollback)
				}
				s.rollBack(99)
				late := s.follow(tt.target)
				expect("after the rollback", tt.fallen)
				if got := strings.Join(inShort(late.events()), " "); got != tt.fallen {
					t.Errorf("a client that came after the rollback got %q, want %q", got, tt.fallen)
				}
				s.says(nil)
				expect("a block later", tt.regrown)
				s.says(nil)
				expect("as high as before", tt.again)
			})
		})
	}
}

func TestAnswerAtAHeightIsReadAgainAfterARollback(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.chain.pinned = 100
		takes := time.Duration(0)
		s.withEpochs(&takes)
		f := s.follow(live("/a"))
		if got := strings.Join(inShort(f.events()), " "); got != "a@0.100" {
			t.Fatalf("first events = %q, want a@0.100", got)
		}
		s.says(nil)
		time.Sleep(time.Minute)
		if got := inShort(f.events()); len(got) > 0 {
			t.Errorf("events = %q, want none: the answer never changes", got)
		}
		s.rollBack(100)
		time.Sleep(time.Second)
		if got := strings.Join(inShort(f.events()), " "); got != "a@1.100" {
			t.Errorf("events after a rollback = %q, want a@1.100", got)
		}
	})
}
