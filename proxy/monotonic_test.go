package proxy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/story"
)

const (
	pool       = "GET /staking/pool HTTP/1.1\r\nHost: x\r\n\r\n"
	validators = "GET /staking/validators HTTP/1.1\r\nHost: x\r\n\r\n"
)

// at tells whether an answer is of a block, and whether it is marked as old.
func at(t *testing.T, what, answer, height string, marked bool) {
	t.Helper()
	if !strings.Contains(answer, "\r\nX-Block-Height: "+height+"\r\n") || strings.Contains(answer, "stale-while-revalidate") != marked {
		head, _, _ := strings.Cut(answer, "\r\n\r\n")
		t.Errorf("%s: want block %s, marked: %t:\n%s", what, height, marked, head)
	}
}

// ahead has another replica's answer come from a block that the tip here has not
// reached.
func (f *fakeChain) ahead(blocks int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.behind = -blocks
}

func TestHeightsDoNotGoBackOnAConnectionAcrossKeys(t *testing.T) {
	for name, start := range map[string]func(*testing.T, proxy.Options) *chainService{
		"with the fast lane":    startChain,
		"without the fast lane": func(t *testing.T, o proxy.Options) *chainService { return startChainWithout(t, o) },
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, proxy.Options{Chain: story.Options{Patience: time.Minute}})
			client, other := dial(t, s.Listener.Addr()), dial(t, s.Listener.Addr())
			for range 4 {
				at(t, "at the tip", client.ask(t, pool), "228", false)
			}
			s.chain.ahead(1)
			for range 3 { // on connections that wait for no block
				at(t, "of another replica", dial(t, s.Listener.Addr()).ask(t, validators), "229", false)
			}
			s.chain.ahead(0)
			at(t, "what memory has of it", client.ask(t, validators), "229", false)
			at(t, "on another connection", other.ask(t, pool), "228", false)
			for range 4 { // it is not waited for
				at(t, "what memory has of it, once more", client.ask(t, validators), "229", false)
			}
			go func() {
				time.Sleep(20 * time.Millisecond)
				s.chain.grow(1)
			}()
			at(t, "the first key once more", client.ask(t, pool), "229", false)
		})
	}
}

// The test would take a minute if each request waited.
func TestBlockThatDoesNotArriveIsAwaitedOncePerConnection(t *testing.T) {
	t.Parallel()
	s := startChain(t, proxy.Options{Chain: story.Options{Patience: 300 * time.Millisecond}})
	client := dial(t, s.Listener.Addr())
	client.ask(t, pool)
	s.chain.ahead(1)
	client.ask(t, validators)
	s.chain.ahead(0)
	at(t, "in vain", client.ask(t, pool), "228", true)
	at(t, "not waited for", client.ask(t, pool), "228", true)
	s.chain.grow(1)
	at(t, "when it has come", client.ask(t, pool), "229", false)
}
