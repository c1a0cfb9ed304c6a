package limits

import (
	"net/http"
	"sync"
	"time"

	"github.com/tipcache/tipcache/proxy/failure"
)

// Places bounds the number of concurrent requests of one kind, such as requests that wait for a block. Once more than half
// of the places are taken, each client is limited to a share. Loopback and trusted proxies stand for many clients, so the
// share does not apply to them.
type Places struct {
	admission *Admission
	doing     string // what the requests do, for refusals

	mu    sync.Mutex
	taken int
	held  map[string]int // by client
}

// DefaultWait is how long a request waits for a block by default.
const DefaultWait = 10 * time.Second

// maxPlaces is the maximum number of concurrent requests of one kind per API.
const maxPlaces = 1000

// clientPlaces is the share of a client, once more than half of the places are taken.
const clientPlaces = maxPlaces / 20

// NewWaiters returns places for the requests of one API that wait for a block.
func (a *Admission) NewWaiters() *Places { return a.NewPlaces("wait for a block") }

// NewPlaces returns places for the requests of one API. doing ends the text of refusals: too many requests DOING.
func (a *Admission) NewPlaces(doing string) *Places {
	return &Places{admission: a, doing: doing, held: map[string]int{}}
}

// Enter takes a place for a request of a client until leave is called. The error is a *failure.Failure that tells the
// client to retry after retry: 429 if the client holds its share, 503 if no place is left.
func (p *Places) Enter(c *Client, retry time.Duration) (leave func(), err error) {
	client, exempt := c.Name(), p.admission.IsMany(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	switch taken := p.taken + 1; {
	case taken <= maxPlaces && taken > maxPlaces/2+1 && p.held[client]+1 > clientPlaces && !exempt:
		return nil, &failure.Failure{Expected: true, Status: http.StatusTooManyRequests, RetryAfter: retry, Public: "too many requests of this client " + p.doing}
	case taken > maxPlaces:
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
