package proxy_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// A turmoil is a server on whose lane everything changes while clients ask.
type turmoil struct {
	*chainService
	cache *cache.Cache
	begun atomic.Int64 // the epoch before which no answer may be any more
}

func (m *turmoil) rollBack() {
	m.chain.mu.Lock()
	m.chain.tip.Epoch++
	m.chain.tip.Height -= 5
	epoch := m.chain.tip.Epoch
	m.chain.mu.Unlock()
	m.cache.SetNamespace(fmt.Sprint("epoch ", epoch))
	m.begun.Store(epoch)
}

// change does the nth thing that makes the lane forget, or its answers other ones.
func (m *turmoil) change(n int) {
	plenty := limits.Rate{Requests: 1e6, Per: time.Second, Burst: 1e6}
	switch n % 20 {
	default:
		m.chain.grow(1)
	case 3:
		m.proxy.SetKeys([]limits.Key{{Name: "tester", SHA256: sha256.Sum256([]byte(testKey))}})
	case 4:
		m.proxy.SetLimits(limits.Limits{Address: plenty})
	case 5:
		m.proxy.SetLimits(limits.Limits{})
	case 6:
		_ = m.proxy.SetClasses(blocks.Classes{}, nil)
		m.proxy.Forget()
	case 7:
		_, _ = m.cache.PurgeKeys(context.Background(), cache.Selection{})
	case 19:
		m.rollBack()
	}
}

// testimony is what the chain says in its answers of when it said so.
var testimony = regexp.MustCompile(`^\{"code":200,"msg":\{"path":"([^"]*)","epoch":(\d+),"height":(\d+),"fill":"x*"\},"error":""\}$`)

// A witness is a client that holds its answers against what it knows.
type witness struct {
	*line
	epoch  int64            // of the answer before
	height map[string]int64 // by target
}

// asks sends one request and says what is wrong with the answer.
func (w *witness) asks(m *turmoil, target string) error {
	least := m.begun.Load()
	answer, err := w.tryToAsk("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")
	if err != nil {
		return err
	}
	head, body, _ := strings.Cut(answer, "\r\n\r\n")
	said := testimony.FindStringSubmatch(body)
	if !strings.HasPrefix(head, "HTTP/1.1 200 OK\r\n") || strings.Count(answer, "HTTP/1.1") != 1 || said == nil || said[1] != target {
		return fmt.Errorf("%s: %.300q", target, answer)
	}
	epoch, _ := strconv.ParseInt(said[2], 10, 64)
	height, _ := strconv.ParseInt(said[3], 10, 64)
	switch {
	case epoch < least:
		return fmt.Errorf("the answer is of epoch %d; %d had begun", epoch, least)
	case !strings.Contains(head+"\r\n", fmt.Sprintf("\r\nX-Block-Height: %d\r\n", height)):
		return fmt.Errorf("the answer of height %d says otherwise: %s", height, head)
	case epoch < w.epoch:
		return fmt.Errorf("the epoch fell from %d to %d", w.epoch, epoch)
	case epoch > w.epoch || w.height == nil:
		w.epoch, w.height = epoch, map[string]int64{}
	case height < w.height[target]:
		return fmt.Errorf("%s: the height fell from %d to %d in epoch %d", target, w.height[target], height, epoch)
	}
	if epoch == least { // else it was asked for in the epoch before, whose last reads are kept for nobody else
		w.height[target] = height
	}
	return nil
}

// Whatever changes meanwhile, and when the server leaves, no answer is cut,
// doubled, another one's or of an epoch that is over.
func TestLaneUnderStress(t *testing.T) {
	registry := prometheus.NewRegistry()
	fast := lane.New(lane.Options{Registerer: registry})
	c := expect.Value(cache.New(cache.Options{}))(t)
	defer c.Close()
	m := &turmoil{cache: c, chainService: startChainWithout(t, proxy.Options{Cache: c, Chain: story.Options{Shape: story.Node}, Web: web.Options{Lane: fast}})}
	m.chain.does(func(r node.Request) (*node.Answer, error) { // called with the chain's lock held
		fill := strings.Repeat("x", len(r.Path)%2*6000)
		body := fmt.Appendf(nil, `{"code":200,"msg":{"path":%q,"epoch":%d,"height":%d,"fill":%q},"error":""}`, r.Path, m.chain.tip.Epoch, m.chain.tip.Height, fill)
		return &node.Answer{Status: http.StatusOK, NodeStatus: http.StatusOK, Type: "application/json", Body: body}, nil
	})
	targets := []string{"/staking/pool", "/staking/params", "/slashing/params", "/mint/params"}
	for warm, tries := dial(t, m.Listener.Addr()), 0; hitsOf(t, registry) == 0; tries++ {
		if warm.ask(t, getPool); tries == 1000 {
			t.Fatal("lane served no request")
		}
	}
	const asked = 150
	var clients, settled sync.WaitGroup
	for i := range 8 {
		settled.Add(1)
		clients.Go(func() {
			w := &witness{line: dial(t, m.Listener.Addr())}
			for n := 0; ; n++ {
				if n == asked {
					settled.Done()
				}
				if err := w.asks(m, targets[(n/7+i)%len(targets)]); err != nil {
					if n < asked {
						settled.Done()
					}
					if n < asked || !errors.Is(err, errLeft) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	stop, others := make(chan struct{}), sync.WaitGroup{}
	others.Go(func() {
		for n := 0; ; n++ {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
				m.change(n)
			}
		}
	})
	settled.Wait()
	t.Logf("%d answers came through the lane", hitsOf(t, registry))
	fast.Drain()
	expect.NoError(t, errors.Join(m.Config.Shutdown(t.Context()), fast.Wait(t.Context())))
	clients.Wait()
	close(stop)
	others.Wait()
}
