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
)

// A poll is one that has been sent.
type poll struct {
	t     *testing.T
	to    *httptest.ResponseRecorder
	ended chan struct{}
}

// poll sends one that ends with the test.
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

// waits tells whether there is no answer yet.
func (p *poll) waits() bool {
	synctest.Wait()
	select {
	case <-p.ended:
		return false
	default:
		return true
	}
}

// expect wants an answer now, and gives the URL to go on with.
func (p *poll) expect(status int, body string) (next string) {
	p.t.Helper()
	if p.waits() {
		p.t.Fatalf("a poll waits; want %d %s", status, body)
	}
	if got := p.to.Body.String(); p.to.Code != status || got != body || !strings.HasSuffix(p.to.Header().Get("Cache-Control"), "max-age=1") {
		p.t.Fatalf("answered %d %s with %v; want %d %s", p.to.Code, got, p.to.Header(), status, body)
	}
	link := p.to.Header().Get("Link")
	next, ok := strings.CutSuffix(strings.TrimPrefix(link, "<?"), `>; rel="next"`)
	if ok != (status < http.StatusBadRequest) {
		p.t.Fatalf("the Link of %d is %q", status, link)
	}
	return "/a?" + next
}

// heightIn is the height that a URL to go on with names.
func heightIn(next string) string {
	height, _, _ := strings.Cut(strings.TrimPrefix(next, "/a?since="), ".")
	return height
}

func TestAPollIsAnsweredOnceThereIsAnotherAnswer(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.says(map[string]string{"/a": `1`})
		next := s.poll("/a?since=0").expect(200, `1`)
		p := s.poll(next)
		time.Sleep(5 * time.Second)
		s.says(nil) // a block that changes nothing
		if !p.waits() {
			s.t.Fatal("a poll is answered with what its client has")
		}
		s.says(map[string]string{"/a": `2`})
		if after := p.expect(200, `2`); heightIn(after) != "103" || s.poll(next).expect(200, `2`) != after {
			s.t.Errorf("after %s came %s", next, after)
		}
	})
}

func TestAPollThatWaitsInVainNamesAURLThatNobodyHasAskedFor(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.says(map[string]string{"/a": `1`})
		asked := map[string]bool{}
		next := s.poll("/a?since=0").expect(200, `1`)
		for round, want := range []string{"102", "102", "102", "103"} { // the chain stands still in between
			if asked[next] {
				s.t.Fatalf("%s for the second time", next)
			}
			asked[next] = true
			p, other := s.poll(next), s.poll(next)
			if round == 0 || round == 3 {
				s.says(nil)
			}
			time.Sleep(20*time.Second - 1)
			if !p.waits() {
				s.t.Fatal("a poll does not wait for 20 s")
			}
			time.Sleep(time.Nanosecond)
			if next = p.expect(204, ""); heightIn(next) != want || other.expect(204, "") != next {
				s.t.Errorf("%s, want block %s", next, want)
			}
		}
		p := s.poll(next)
		s.says(map[string]string{"/a": `2`})
		p.expect(200, `2`)
	})
}

func TestReplicasNameAnAnswerAlike(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		other := newService(s.t, stream.Options{}, web.Options{})
		s.says(map[string]string{"/a": `1`})
		s.says(nil)
		other.says(nil)
		other.says(map[string]string{"/a": `1`}) // it was something else until now
		if one, two := s.poll("/a?since=0").expect(200, `1`), other.poll("/a?since=0").expect(200, `1`); one != two {
			s.t.Errorf("%s and %s", one, two)
		}
	})
}

func TestAPollNeverGoesBackToTheBlockOfAReplicaThatIsLate(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		late := newService(s.t, stream.Options{}, web.Options{})
		late.says(map[string]string{"/a": `old`})
		s.says(nil)
		s.says(map[string]string{"/a": `new`})
		next := s.poll("/a?since=0").expect(200, `new`)
		late.follow("/a").expect(t, `old`)
		p := late.poll(next)
		if !p.waits() {
			s.t.Fatal("an older answer is given")
		}
		late.says(nil) // block 102, in which another replica saw the new answer: whatever it is here, it is no news
		if !p.waits() {
			s.t.Fatal("two answers of one block are given")
		}
		late.says(nil)
		p.expect(200, `old`) // the chain's word of a later block
	})
}

func TestAPollOfAChainThatWasSetBackGoesOnAtItsBlocks(t *testing.T) {
	for name, tt := range map[string]struct {
		catchingUp bool
		status     int
		body       string
	}{
		"set back":    {false, 200, `other`},
		"catching up": {true, 504, "block 102 has not come; the newest is 41"},
	} {
		inBubble(t, stream.Options{}, func(s *service) {
			s.says(nil)
			s.says(map[string]string{"/a": `1`})
			next := s.poll("/a?since=0").expect(200, `1`)
			s.chain.mu.Lock()
			s.chain.tip.Height, s.chain.tip.CatchingUp = 40, tt.catchingUp
			s.chain.mu.Unlock()
			s.says(map[string]string{"/a": `other`})
			p := s.poll(next)
			time.Sleep(20 * time.Second)
			if next := p.expect(tt.status, tt.body); tt.status == 200 && heightIn(next) != "41" {
				s.t.Errorf("%s: goes on with %s", name, next)
			}
		})
	}
}

func TestAPollOfWhatCannotBeReadFailsAtItsEnd(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.says(map[string]string{"/a": `1`})
		next := s.poll("/a?since=0").expect(200, `1`)
		s.says(map[string]string{"/a": unreadable})
		s.poll("/a?since=0").expect(502, errUnreadable.Public)
		p := s.poll(next)
		time.Sleep(20*time.Second - 1)
		if !p.waits() {
			s.t.Fatal("a failure is told before there is nothing else to tell")
		}
		time.Sleep(time.Nanosecond)
		p.expect(502, errUnreadable.Public)
		p = s.poll(next)
		s.says(map[string]string{"/a": `2`})
		time.Sleep(2 * time.Second) // until it is read again
		p.expect(200, `2`)
	})
}

func TestAPollIsAnsweredAndSentElsewhereWhenTheServerDrains(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.says(map[string]string{"/a": `1`})
		next := s.poll("/a?since=0").expect(200, `1`)
		p := s.poll(next)
		if !p.waits() {
			s.t.Fatal("the poll does not wait")
		}
		s.streams.Drain()
		p.expect(204, "")
		late := s.poll(next)
		late.expect(503, "this server is about to stop")
		for _, p := range []*poll{p, late} {
			if after := p.to.Header().Get("Retry-After"); after != "1" {
				s.t.Errorf("Retry-After: %q of %d", after, p.to.Code)
			}
		}
	})
}

func TestPollsAreBoundedAsStreamsAre(t *testing.T) {
	key := keyOf("one", "1")
	inBubbleWith(t, stream.Options{PerClient: 2}, web.Options{Keys: []limits.Key{key}}, func(s *service) {
		s.says(map[string]string{"/a": `1`})
		next := s.poll("/a?since=0", "X-Api-Key", "1").expect(200, `1`)
		s.follow("/a", "X-Api-Key", "1").expect(t, `1`)
		p := s.poll(next, "X-Api-Key", "1")
		if !p.waits() {
			s.t.Fatal("the poll does not wait")
		}
		s.poll(next, "X-Api-Key", "1").expect(503, "too many requests wait for a change")
		s.poll(next).expect(401, "the X-Api-Key header is required")
		s.stack.SetKeys([]limits.Key{keyOf("two", "2")})
		s.streams.Readmit()
		p.expect(401, "the X-Api-Key is not valid")
	})
}

func TestAPollPaysForItsReadsAndItsAnswer(t *testing.T) {
	w := slowly
	w.Limits.Address.Burst = 3
	inBubbleWith(t, stream.Options{}, w, func(s *service) {
		s.says(map[string]string{"/a": `1`})
		p := s.poll(s.poll("/a?since=0").expect(200, `1`)) // the second of three, for the first read of the topic
		s.readers()
		s.says(nil) // the third
		for range 8 {
			s.says(nil)
			time.Sleep(time.Second)
		}
		if reads := len(s.readers()); reads > 2 {
			s.t.Errorf("%d reads", reads)
		}
		s.says(map[string]string{"/a": `2`})
		time.Sleep(4 * time.Second)
		p.expect(200, `2`)
	})
}

func TestIDsThatAreNoneAreRefused(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.says(map[string]string{"/a": `1`})
		next := s.poll("/a?since=0").expect(200, `1`)
		_, id, _ := strings.Cut(next, "=")
		height, tag, _ := strings.Cut(id, ".")
		for _, bad := range []string{
			"", "1", "-1", "x", height, id + ".", id + ".0", id + ".1", "." + tag, "0" + id, "+" + id, id + "x", height + "." + tag[1:] + tag[:1],
			"99999999999999999999." + tag, height + ".", height + "." + strings.Repeat("A", 12), strings.Repeat("9.", 500), id + "%0a", height + "1." + tag,
		} {
			p := s.poll("/a?since=" + bad)
			if p.waits() || p.to.Code != 400 || !strings.HasPrefix(p.to.Body.String(), "since is ") || p.to.Header().Get("Cache-Control") != "max-age=1" {
				s.t.Errorf("since=%s: %d %s %v", bad, p.to.Code, p.to.Body, p.to.Header())
			}
		}
		s.poll(next+"&since=0").expect(400, "since is given 2 times")
	})
}

func TestManyPollsOfAChangeAreOneRead(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.says(map[string]string{"/a": `1`})
		next := s.poll("/a?since=0").expect(200, `1`)
		for block := 2; block < 5; block++ {
			var all []*poll
			for range 50 {
				all = append(all, s.poll(next))
			}
			s.readers()
			s.says(map[string]string{"/a": fmt.Sprint(block)})
			for _, p := range all {
				next = p.expect(200, fmt.Sprint(block))
			}
			if followed := len(s.readers()) - len(all); followed != 1 { // each reply reads here, and would ask the cache
				s.t.Errorf("%d reads for %d polls", followed, len(all))
			}
		}
	})
}
