package stream_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

// poll is a poll request that has been sent.
type poll struct {
	t     *testing.T
	to    *httptest.ResponseRecorder
	ended chan struct{}
}

// poll sends a poll that is canceled when the test ends.
func (s *service) poll(target string, headers ...string) *poll {
	s.t.Helper()
	ctx, leave := context.WithCancel(s.t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	p := &poll{s.t, httptest.NewRecorder(), make(chan struct{})}
	go func() {
		defer close(p.ended)
		s.handler.ServeHTTP(p.to, r)
	}()
	s.t.Cleanup(func() { leave(); <-p.ended })
	return p
}

func (p *poll) waits() bool {
	synctest.Wait()
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// expect checks that the poll has been answered and returns the next URL.
func (p *poll) expect(status int, body string) (next string) {
	p.t.Helper()
	if p.waits() {
		p.t.Fatalf("the poll is still waiting, want %d %s", status, body)
	}
	if got := p.to.Body.String(); p.to.Code != status || got != body || !strings.HasSuffix(p.to.Header().Get("Cache-Control"), "max-age=1") {
		p.t.Fatalf("response = %d %s %v, want %d %s with max-age=1", p.to.Code, got, p.to.Header(), status, body)
	}
	link := p.to.Header().Get("Link")
	next, ok := strings.CutSuffix(strings.TrimPrefix(link, "<?"), `>; rel="next"`)
	if ok != (status < http.StatusBadRequest) {
		p.t.Fatalf("Link of a response with status %d = %q", status, link)
	}
	return "/a?" + next
}

func heightIn(next string) string {
	height, _, _ := strings.Cut(strings.TrimPrefix(next, "/a?since="), ".")
	return height
}

func TestPollEndsWhenAnswerChanges(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		next := s.poll("/a?since=0").expect(200, `1`)
		p := s.poll(next)
		time.Sleep(5 * time.Second)
		s.setAnswers(nil) // a block that changes nothing
		if !p.waits() {
			s.t.Fatal("poll ended without a change of the answer")
		}
		s.setAnswers(map[string]string{"/a": `2`})
		if after := p.expect(200, `2`); heightIn(after) != "103" || s.poll(next).expect(200, `2`) != after {
			s.t.Errorf("next URL after %s = %s, want height 103 and the same for all clients", next, after)
		}
	})
}

func TestTimedOutPollContinuesAtUnusedURL(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		asked := map[string]bool{}
		next := s.poll("/a?since=0").expect(200, `1`)
		for round, want := range []string{"102", "102", "102", "103"} { // no new block for the second and third
			if asked[next] {
				s.t.Fatalf("next URL %s was used before", next)
			}
			asked[next] = true
			p, other := s.poll(next), s.poll(next)
			if round == 0 || round == 3 {
				s.setAnswers(nil)
			}
			time.Sleep(20*time.Second - 1)
			if !p.waits() {
				s.t.Fatal("poll ended before 20 s")
			}
			time.Sleep(time.Nanosecond)
			if next = p.expect(204, ""); heightIn(next) != want || other.expect(204, "") != next {
				s.t.Errorf("next URL = %s, want height %s and the same for all clients", next, want)
			}
		}
		p := s.poll(next)
		s.setAnswers(map[string]string{"/a": `2`})
		p.expect(200, `2`)
	})
}

func TestReplicasNameTheSameNextURL(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		other := newService(s.t, stream.Options{}, web.Options{})
		s.setAnswers(map[string]string{"/a": `1`})
		s.setAnswers(nil)
		other.setAnswers(nil)
		other.setAnswers(map[string]string{"/a": `1`}) // other replica: a different answer until this block
		if one, two := s.poll("/a?since=0").expect(200, `1`), other.poll("/a?since=0").expect(200, `1`); one != two {
			s.t.Errorf("next URLs of two replicas = %s and %s, want equal ones", one, two)
		}
	})
}

func TestPollGetsNoOlderAnswerFromLateReplica(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		late := newService(s.t, stream.Options{}, web.Options{})
		late.setAnswers(map[string]string{"/a": `old`})
		s.setAnswers(nil)
		s.setAnswers(map[string]string{"/a": `new`})
		next := s.poll("/a?since=0").expect(200, `new`)
		late.follow("/a").expect(t, `old`)
		p := late.poll(next)
		if !p.waits() {
			s.t.Fatal("the poll got an older answer, want it to wait")
		}
		late.setAnswers(nil) // block 102, at which the other replica read the new answer
		if !p.waits() {
			s.t.Fatal("the poll got a second answer of block 102, want it to wait")
		}
		late.setAnswers(nil)
		p.expect(200, `old`) // at a later block
	})
}

func TestPollContinuesAfterRollback(t *testing.T) {
	for name, tt := range map[string]struct {
		catchingUp bool
		status     int
		body       string
	}{
		"rolled back": {false, 200, `other`},
		"catching up": {true, 504, "block 102 has not arrived; the newest is 41"},
	} {
		inBubble(t, stream.Options{}, func(s *service) {
			s.setAnswers(nil)
			s.setAnswers(map[string]string{"/a": `1`})
			next := s.poll("/a?since=0").expect(200, `1`)
			s.chain.mu.Lock()
			s.chain.tip.Height, s.chain.tip.CatchingUp = 40, tt.catchingUp
			s.chain.mu.Unlock()
			s.setAnswers(map[string]string{"/a": `other`})
			p := s.poll(next)
			time.Sleep(20 * time.Second)
			if next := p.expect(tt.status, tt.body); tt.status == 200 && heightIn(next) != "41" {
				s.t.Errorf("%s: next URL = %s, want height 41", name, next)
			}
		})
	}
}

// The chain was reset before the poll began, so its version says nothing.
func TestPollWithAVersionAboveTheChainIsAnsweredAtOnce(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		next := s.poll("/a?since=0").expect(200, `1`)
		s.rollBack(5)
		s.chain.mu.Lock()
		s.chain.tip.Limit = 7
		s.chain.answers["/a"] = `other`
		s.chain.mu.Unlock()
		if next = s.poll(next).expect(200, `other`); heightIn(next) != "5" {
			s.t.Errorf("next URL = %s, want height 5", next)
		}
		if p := s.poll(next); !p.waits() {
			s.t.Error("a poll with the version of the new chain ended, want it to wait")
		}
	})
}

func TestPollOfUnreadableAnswerFailsWhenItTimesOut(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		next := s.poll("/a?since=0").expect(200, `1`)
		s.setAnswers(map[string]string{"/a": unreadable})
		s.poll("/a?since=0").expect(502, errUnreadable.Public)
		p := s.poll(next)
		time.Sleep(20*time.Second - 1)
		if !p.waits() {
			s.t.Fatal("poll failed before its timeout")
		}
		time.Sleep(time.Nanosecond)
		p.expect(502, errUnreadable.Public)
		expect.Equal(s.t, p.to.Header().Get("Retry-After"), "1", "Retry-After")
		p = s.poll(next)
		s.setAnswers(map[string]string{"/a": `2`})
		time.Sleep(2 * time.Second) // for the next read
		p.expect(200, `2`)
	})
}

func TestPollEndsWithRetryAfterWhenServerDrains(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		next := s.poll("/a?since=0").expect(200, `1`)
		p := s.poll(next)
		if !p.waits() {
			s.t.Fatal("the poll ended, want it to wait")
		}
		s.streams.Drain()
		p.expect(204, "")
		late := s.poll(next)
		late.expect(503, "this server is about to stop")
		for _, p := range []*poll{p, late} {
			expect.Equal(s.t, p.to.Header().Get("Retry-After"), "1", "status %d: Retry-After", p.to.Code)
		}
	})
}

func TestPollsCountTowardsStreamLimits(t *testing.T) {
	key := keyOf("one", "1")
	inBubbleWith(t, stream.Options{Settings: stream.Settings{PerClient: 2}}, web.Options{Keys: []limits.Key{key}}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		next := s.poll("/a?since=0", "X-Api-Key", "1").expect(200, `1`)
		s.follow("/a", "X-Api-Key", "1").expect(t, `1`)
		p := s.poll(next, "X-Api-Key", "1")
		if !p.waits() {
			s.t.Fatal("the poll ended, want it to wait")
		}
		refused := s.poll(next, "X-Api-Key", "1")
		refused.expect(429, "too many streams and waiting requests of this client")
		expect.Equal(t, refused.to.Header().Get("Cache-Control"), "private, max-age=1", "Cache-Control of a refusal by the client's limit")
		s.poll(next).expect(401, "the X-Api-Key header is required")
		s.stack.SetKeys([]limits.Key{keyOf("two", "2")})
		s.streams.Readmit()
		p.expect(401, "the X-Api-Key is not valid")
	})
}

func TestPollIsChargedForReadsAndAnswer(t *testing.T) {
	w := slowly
	w.Limits.Address.Burst = 3
	inBubbleWith(t, stream.Options{}, w, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		p := s.poll(s.poll("/a?since=0").expect(200, `1`)) // the second of three, for the first read of the topic
		s.readers()
		s.setAnswers(nil) // the third
		for range 8 {
			s.setAnswers(nil)
			time.Sleep(time.Second)
		}
		if reads := len(s.readers()); reads > 2 {
			s.t.Errorf("%d reads, want at most 2", reads)
		}
		s.setAnswers(map[string]string{"/a": `2`})
		time.Sleep(4 * time.Second)
		p.expect(200, `2`)
	})
}

func TestInvalidVersionsAreRefused(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		next := s.poll("/a?since=0").expect(200, `1`)
		_, id, _ := strings.Cut(next, "=")
		height, tag, _ := strings.Cut(id, ".")
		for _, bad := range []string{
			"", "1", "-1", "x", height, id + ".", id + ".0", id + ".1", "." + tag, "0" + id, "+" + id, id + "x", height + "." + tag[1:] + tag[:1],
			"99999999999999999999." + tag, height + ".", height + "." + strings.Repeat("A", 12), strings.Repeat("9.", 500), id + "%0a", height + "1." + tag,
		} {
			p := s.poll("/a?since=" + bad)
			if p.waits() || p.to.Code != 400 || !strings.HasPrefix(p.to.Body.String(), "since is ") || p.to.Header().Get("Cache-Control") != "private, max-age=1" {
				s.t.Errorf("since=%s: response = %d %s %v, want 400 that names since, with max-age=1", bad, p.to.Code, p.to.Body, p.to.Header())
			}
		}
		s.poll(next+"&since=0").expect(400, "since is given 2 times")
	})
}

func TestPollsShareReads(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.setAnswers(map[string]string{"/a": `1`})
		next := s.poll("/a?since=0").expect(200, `1`)
		for block := 2; block < 5; block++ {
			var all []*poll
			for range 50 {
				all = append(all, s.poll(next))
			}
			s.readers()
			s.setAnswers(map[string]string{"/a": fmt.Sprint(block)})
			for _, p := range all {
				next = p.expect(200, fmt.Sprint(block))
			}
			if followed := len(s.readers()) - len(all); followed != 1 { // besides one read per reply, which the cache would answer
				s.t.Errorf("%d reads for %d polls, want 1", followed, len(all))
			}
		}
	})
}
