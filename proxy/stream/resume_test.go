package stream_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/upstream/expect"
)

func liveData(path string, height int, answer string) string {
	return fmt.Sprintf(`{"path":%q,"height":%d,"answer":%s}`, path, height, answer)
}

// expect checks the data sent to a client since the last call and returns the client's last event id.
func (f *follower) expect(t *testing.T, want ...string) string {
	t.Helper()
	got, id := f.data()
	expect.NoDiff(t, got, want, "data")
	return id
}

func TestBatchEndsWithIDOfAllPaths(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`, "/b": `2`})
		events := s.follow(live("/a", "/b")).events()
		form := regexp.MustCompile(`^id: [-_0-9A-Za-z]{8}\.[-_0-9A-Za-z]{8}$`)
		if last := events[len(events)-1]; !form.MatchString(last) {
			t.Errorf("last event = %q, want an id of two parts", last)
		}
	})
}

func TestResumingSeveralPathsSendsOnlyChanges(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		paths := live("/delegation", "/rewards", "/unbonding")
		s.setAnswers(map[string]string{"/delegation": `{"shares":7}`, "/rewards": `{"none":true}`, "/unbonding": `{}`})
		f := s.follow(paths)
		id := f.expect(t, liveData("/delegation", 101, `{"shares":7}`), liveData("/rewards", 101, `{"none":true}`), liveData("/unbonding", 101, `{}`))
		f.leave()
		s.setAnswers(map[string]string{"/delegation": `{"none":true}`}) // an answer that another path had before
		resumed := s.follow(paths, "Last-Event-ID", id)
		later := resumed.expect(t, liveData("/delegation", 102, `{"none":true}`))
		resumed.leave()
		unchanged := s.follow(paths, "Last-Event-ID", later)
		expect.Equal(t, unchanged.expect(t), later, "id without a change")
		s.setAnswers(map[string]string{"/delegation": `{"shares":7}`})
		unchanged.expect(t, liveData("/delegation", 103, `{"shares":7}`))
	})
}

func TestUnknownIDSendsEverything(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `[]`, "/b": `[]`, "/c": `1`})
		f := s.follow(live("/a", "/b"))
		all := []string{liveData("/a", 101, `[]`), liveData("/b", 101, `[]`)}
		id := f.expect(t, all...)
		for name, target := range map[string]string{id: live("/b", "/a"), id + ".": live("/a", "/b"), "101.": live("/a", "/b"), id[:9] + "?-------": live("/b", "/a")} {
			s.follow(target, "Last-Event-ID", name).expect(t, all...)
		}
		s.follow(live("/a", "/c"), "Last-Event-ID", id).expect(t, liveData("/c", 101, `1`))
	})
}

func TestResumingWithinABatchMissesNothing(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`, "/b": `1`})
		f := s.follow(live("/a", "/b"))
		f.expect(t, liveData("/a", 101, `1`), liveData("/b", 101, `1`))
		s.setAnswers(map[string]string{"/a": `2`, "/b": `2`})
		var id string
		for _, event := range f.events() {
			if _, err := fmt.Sscanf(event, "id: %s\ndata: ", &id); err == nil {
				break
			}
		}
		s.follow(live("/a", "/b"), "Last-Event-ID", id).expect(t, liveData("/a", 102, `2`), liveData("/b", 102, `2`))
	})
}

func TestSinglePathResumesByEventID(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		for _, target := range []string{"/a", live("/a")} {
			first := s.follow(target)
			_, id := first.data()
			again := s.follow(target, "Last-Event-ID", id)
			again.expect(t)
			if events := again.events(); len(events) > 0 {
				t.Errorf("%s: events after resuming = %q, want none", target, events)
			}
		}
	})
}

func TestUnchangedAnswerIsSentAgainAfterFailure(t *testing.T) {
	for _, target := range []string{"/a", live("/a", "/b")} {
		inBubble(t, stream.Options{}, func(s *service) {
			s.setAnswers(map[string]string{"/a": `"one"`, "/b": `"two"`})
			f := s.follow(target)
			f.events()
			s.setAnswers(map[string]string{"/a": unreadable})
			if got := f.events(); len(got) != 1 || !strings.HasPrefix(got[0], "event: failure") {
				t.Errorf("%s: events = %q, want one failure", target, got)
			}
			s.setAnswers(map[string]string{"/a": `"one"`})
			time.Sleep(2 * time.Second)
			if got := f.events(); len(got) != 1 || !strings.Contains(got[0], `"one"`) {
				t.Errorf("%s: events after recovery = %q, want the answer", target, got)
			}
		})
	}
}
