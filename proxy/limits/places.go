package limits

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/tipcache/tipcache/proxy/failure"
)

// Places are what requests hold while they last: a request that waits for a block holds a
// connection for as long as the block takes to come, and one that brings a body
// holds its bytes. There is a bounded number of them. Once more than half are taken, a
// client has a share, as it has of the connections: a client's key name, its IPv4
// address, or its IPv6 /64. Loopback and trusted proxies have many clients behind
// them, and no share.
type Places struct {
	admission *Admission
	most      int
	share     int    // of a client, once more than half are taken
	doing     string // what requests hold them for
	memory    Memory // that places are bytes of; nil: none

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

// A Memory sets bytes aside, or takes them back where they are negative; *cache.Cache has one.
type Memory interface {
	Reserve(bytes int64) (ok bool)
}

// NewBodies makes places, a byte of memory each, for the bodies of requests while they come and while
// they are worked on. A client's share has room for the largest of them.
func (a *Admission) NewBodies(most, largest int, memory Memory) *Places {
	most = max(most, largest)
	return &Places{admission: a, most: most, share: max(most/clientShares, largest), doing: "bring a body", memory: memory, held: map[string]int{}}
}

// A Visit is what one request holds. It is for one goroutine.
type Visit struct {
	places *Places
	client string
	exempt bool
	retry  time.Duration
	held   int
}

// Visit begins with no place, for a request and for the tenant whose key it has (""
// for none). Refusals say to come again after retry. Leave is to be called.
func (p *Places) Visit(r *http.Request, tenant string, retry time.Duration) *Visit {
	return &Visit{places: p, client: p.admission.Name(r, tenant), exempt: p.admission.isMany(r, tenant), retry: retry}
}

// Take takes some places more. The error is a *failure.Failure: 429 where the client holds
// its share, 503 where too few are left.
func (v *Visit) Take(places int) error {
	p := v.places
	p.mu.Lock()
	defer p.mu.Unlock()
	switch taken := p.taken + places; {
	case taken <= p.most && taken > p.most/2+1 && p.held[v.client]+places > p.share && !v.exempt:
		return &failure.Failure{Expected: true, Status: http.StatusTooManyRequests, RetryAfter: v.retry, Public: "too many requests of this client " + p.doing}
	case taken > p.most, p.memory != nil && !p.memory.Reserve(int64(places)):
		return &failure.Failure{Expected: true, Status: http.StatusServiceUnavailable, RetryAfter: v.retry, Public: "too many requests " + p.doing}
	}
	v.held += places
	p.taken += places
	p.held[v.client] += places
	return nil
}

// ReadBody reads a body of at most so many bytes, of which from makes sure. It takes
// places for them as they come: a client that announces much and sends nothing holds
// next to nothing. The error is from's, or a *failure.Failure.
func (v *Visit) ReadBody(from io.Reader, largest int64) ([]byte, error) {
	const first = 512 // room for a call of JSON-RPC
	var body []byte
	for {
		if len(body) == cap(body) {
			grown := min(max(first, 2*cap(body)), int(largest)+1) // one more, to see the end
			if err := v.Take(grown - cap(body)); err != nil {
				return nil, err
			}
			body = append(make([]byte, 0, grown), body...)
		}
		n, err := from.Read(body[len(body):cap(body)])
		body = body[:len(body)+n]
		switch {
		case errors.Is(err, io.EOF):
			return body, nil
		case err != nil:
			return nil, err
		}
	}
}

// Leave gives all places back.
func (v *Visit) Leave() {
	p := v.places
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken -= v.held
	if p.memory != nil {
		p.memory.Reserve(-int64(v.held))
	}
	if p.held[v.client] -= v.held; p.held[v.client] == 0 {
		delete(p.held, v.client)
	}
	v.held = 0
}

// Enter takes a place until leave is called, as a Visit does.
func (p *Places) Enter(r *http.Request, tenant string, retry time.Duration) (leave func(), err error) {
	v := p.Visit(r, tenant, retry)
	if err := v.Take(1); err != nil {
		return nil, err
	}
	return v.Leave, nil
}
