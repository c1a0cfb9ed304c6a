package limits

import (
	"errors"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/upstream/account"
)

// Places bounds the number of concurrent requests of one kind, such as requests that wait for a block. Once more than
// half of the places are taken, each client is limited to a share. Loopback and trusted proxies stand for many clients,
// so the share does not apply to them.
type Places struct {
	admission *Admission
	doing     string        // what the requests do, for refusals
	taken     *account.Part // counts requests instead of bytes
}

// DefaultWait is how long a request waits for a block by default.
const DefaultWait = 10 * time.Second

const (
	maxPlaces    = 1000           // concurrent requests of one kind per API
	clientPlaces = maxPlaces / 20 // share of a client, once more than half of the places are taken
)

// NewWaiters returns places for the requests of one API that wait for a block.
func (a *Admission) NewWaiters() *Places { return a.NewPlaces("wait for a block") }

// NewPlaces returns places for the requests of one API. doing ends the text of refusals: too many requests DOING.
func (a *Admission) NewPlaces(doing string) *Places {
	var unlimited *account.Account // the part alone limits
	return &Places{a, doing, unlimited.Part(account.Requests, maxPlaces, clientPlaces)}
}

// Enter takes a place for a request of a client until leave is called. The error is a *failure.Failure that tells the
// client to retry after retry: 429 if the client holds its share, 503 if no place is left.
func (p *Places) Enter(c *Client, retry time.Duration) (leave func(), err error) {
	place := p.taken.Open(c.Name(), p.admission.IsMany(c))
	switch err := place.Take(1); {
	case errors.Is(err, account.ErrShare):
		return nil, &failure.Failure{Expected: true, Status: http.StatusTooManyRequests, RetryAfter: retry, Public: "too many requests of this client " + p.doing}
	case err != nil:
		return nil, &failure.Failure{Expected: true, Status: http.StatusServiceUnavailable, RetryAfter: retry, Public: "too many requests " + p.doing}
	}
	return place.Close, nil
}
