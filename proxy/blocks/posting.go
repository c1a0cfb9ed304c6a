package blocks

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node/queue"
)

// Posts bound how many transactions are sent on to the nodes, to be broadcast or simulated.
type Posts struct {
	Rate  float64 // a second, of all clients together, which take turns; default 50
	Burst int     // at once; default 100
}

// WithDefaults fills in what was left zero.
func (p Posts) WithDefaults() Posts { return Posts{cmp.Or(p.Rate, 50), cmp.Or(p.Burst, 100)} }

// postPatience is how long a transaction waits for its turn.
const postPatience = 2 * time.Second

// Posting gives clients their turns to send transactions on. All interfaces share one, or a
// client would have as many turns as there are interfaces.
type Posting struct{ turns *queue.Tokens }

// NewPosting fills in the defaults.
func NewPosting(p Posts) *Posting {
	p = p.WithDefaults()
	return &Posting{queue.NewTokens(p.Rate, p.Burst, postPatience)}
}

// Acquire waits for the turn of a client, by its name in [web.Stack.Client]. The error is a
// *web.Failure, 429, where it does not come soon, or the context's.
func (p *Posting) Acquire(ctx context.Context, client string) error {
	err := p.turns.Acquire(ctx, client)
	if errors.Is(err, queue.ErrLate) {
		return &web.Failure{
			Status: http.StatusTooManyRequests, RetryAfter: time.Second, Expected: true,
			Public: "too many transactions are sent through this server at present",
		}
	}
	return err
}
