package limits

import (
	"net/http"
	"sync"
	"time"

	"github.com/tipcache/tipcache/proxy/failure"
)

// Places are what requests hold while they last: a request that waits for a block holds a
// connection until the block arrives. There is a bounded number of them. Once more than half are taken, a
// client has a share, as it has of the connections: a client's key name, its IPv4
// address, or its IPv6 /64. Loopback and trusted proxies have many clients behind
// them, and no share.
type Places struct {
	admission *Admission
	most      int
	share     int    // of a client, once more than half are taken
	doing     string // what requests hold them for

	mu    sync.Mutex
	taken int
	held  map[string]int // by client
}

// DefaultWait is how long a request waits for a block where nothing else is
// configured.
const DefaultWait = 10 * time.Second

// maxPlaces are how many requests of one interface do one thing for long.
const maxPlaces = 1000

// clientShares is how many shares there are of all places, of which a client has one.
const clientShares = 20

// NewWaiters makes places for the requests of one interface that wait for a block.
func (a *Admission) NewWaiters() *Places { return a.NewPlaces("wait for a block") }

// NewPlaces makes places for the requests of one interface that do something for long. Refusals say
// what too many requests are doing.
func (a *Admission) NewPlaces(doing string) *Places {
	return &Places{admission: a, most: maxPlaces, share: maxPlaces / clientShares, doing: doing, held: map[string]int{}}
}

// Enter takes a place for a request of a client until leave is called. The error is a *failure.Failure that tells the
// client to retry after retry: 429 if the client holds its share, 503 if no place is left.
func (p *Places) Enter(c *Client, retry time.Duration) (leave func(), err error) {
	client, exempt := c.Name(), p.admission.IsMany(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch taken := p.taken + 1; {
	case taken <= p.most && taken > p.most/2+1 && p.held[client]+1 > p.share && !exempt:
		return nil, &failure.Failure{Expected: true, Status: http.StatusTooManyRequests, RetryAfter: retry, Public: "too many requests of this client " + p.doing}
	case taken > p.most:
		return nil, &failure.Failure{Expected: true, Status: http.StatusServiceUnavailable, RetryAfter: retry, Public: "too many requests " + p.doing}
	}
	p.taken++
	p.held[client]++
	return func() { p.leave(client) }, nil
}

func (p *Places) leave(client string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken--
	if p.held[client]--; p.held[client] == 0 {
		delete(p.held, client)
	}
}
