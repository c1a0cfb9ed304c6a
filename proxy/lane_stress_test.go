package proxy_test

import (
	"context"
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

// stressedService is a server whose chain, keys, limits and cache change while clients send requests.
type stressedService struct {
	*chainService
	cache    *cache.Cache
	minEpoch atomic.Int64 // of all responses to later requests
}

func (m *stressedService) rollBack() {
	m.chain.mu.Lock()
	m.chain.tip.Epoch++
	m.chain.tip.Height -= 5
	epoch := m.chain.tip.Epoch
	m.chain.mu.Unlock()
	m.cache.SetNamespace(fmt.Sprint("epoch ", epoch))
	m.minEpoch.Store(epoch)
}

// change makes the nth change, after which the lane has other responses or none.
func (m *stressedService) change(n int) {
	plenty := limits.Rate{Requests: 1e6, Per: time.Second, Burst: 1e6}
	switch n % 20 {
	default:
		m.chain.grow(1)
	case 3:
		m.proxy.SetKeys([]limits.Key{keyOf("tester", testKey)})
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

// chainBody matches an answer of the chain, which contains the time of its read as epoch and height.
var chainBody = regexp.MustCompile(`^\{"code":200,"msg":\{"path":"([^"]*)","epoch":(\d+),"height":(\d+),"fill":"x*"\},"error":""\}$`)

// checkingClient is a client that compares each response with the previous ones.
type checkingClient struct {
	*rawConn
	epoch  int64            // of the previous response
	height map[string]int64 // by target
}

// check sends one request and returns an error if the response is wrong.
func (c *checkingClient) check(m *stressedService, target string) error {
	minEpoch := m.minEpoch.Load()
	response, err := c.tryRoundTrip("GET " + target + " HTTP/1.1\r\nHost: x\r\n\r\n")
	if err != nil {
		return err
	}
	head, body, _ := strings.Cut(response, "\r\n\r\n")
	parts := chainBody.FindStringSubmatch(body)
	if !strings.HasPrefix(head, "HTTP/1.1 200 OK\r\n") || strings.Count(response, "HTTP/1.1") != 1 || parts == nil || parts[1] != target {
		return fmt.Errorf("response to %s = %.300q, want one with status 200 and this path", target, response)
	}
	epoch, _ := strconv.ParseInt(parts[2], 10, 64)
	height, _ := strconv.ParseInt(parts[3], 10, 64)
	switch {
	case epoch < minEpoch:
		return fmt.Errorf("epoch of the response = %d, want at least %d", epoch, minEpoch)
	case !strings.Contains(head+"\r\n", fmt.Sprintf("\r\nX-Block-Height: %d\r\n", height)):
		return fmt.Errorf("headers = %s, want X-Block-Height: %d", head, height)
	case epoch < c.epoch:
		return fmt.Errorf("epoch fell from %d to %d", c.epoch, epoch)
	case epoch > c.epoch || c.height == nil:
		c.epoch, c.height = epoch, map[string]int64{}
	case height < c.height[target]:
		return fmt.Errorf("height of %s fell from %d to %d in epoch %d", target, c.height[target], height, epoch)
	}
	if epoch == minEpoch { // a response from an epoch that began after the request does not count
		c.height[target] = height
	}
	return nil
}

// No response may be truncated, sent twice, for another path or from a finished epoch, also during a shutdown.
func TestLaneUnderStress(t *testing.T) {
	registry := prometheus.NewRegistry()
	fast := lane.New(lane.Options{Registerer: registry})
	c := expect.Value(cache.New(cache.Options{}))(t)
	defer c.Close()
	m := &stressedService{cache: c, chainService: serveChain(t, proxy.Options{Cache: c, Story: story.Options{Shape: story.Node}, Web: web.Options{Lane: fast}})}
	m.chain.answerWith(func(r node.Request) (*node.Answer, error) { // the caller holds the chain's lock
		fill := strings.Repeat("x", len(r.Path)%2*6000)
		body := fmt.Appendf(nil, `{"code":200,"msg":{"path":%q,"epoch":%d,"height":%d,"fill":%q},"error":""}`, r.Path, m.chain.tip.Epoch, m.chain.tip.Height, fill)
		return &node.Answer{Status: http.StatusOK, NodeStatus: http.StatusOK, Type: "application/json", Body: body}, nil
	})
	targets := []string{"/staking/pool", "/staking/params", "/slashing/params", "/mint/params"}
	warmLane(t, registry, dial(t, m.Listener.Addr()), getPool)
	const requests = 150 // of each client before the shutdown
	var clients, served sync.WaitGroup
	for i := range 8 {
		served.Add(1)
		clients.Go(func() {
			c := &checkingClient{rawConn: dial(t, m.Listener.Addr())}
			for n := 0; ; n++ {
				if n == requests {
					served.Done()
				}
				if err := c.check(m, targets[(n/7+i)%len(targets)]); err != nil {
					if n < requests {
						served.Done()
					}
					if n < requests || !errors.Is(err, errClosed) {
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
	served.Wait()
	t.Logf("requests served by the lane: %d", laneHits(t, registry))
	fast.Drain()
	expect.NoError(t, errors.Join(m.Config.Shutdown(t.Context()), fast.Wait(t.Context())))
	clients.Wait()
	close(stop)
	others.Wait()
}
