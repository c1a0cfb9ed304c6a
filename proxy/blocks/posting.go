package blocks

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node/queue"
)

// Posts limits the transactions sent to the nodes to be broadcast or simulated, and the size of bodies that are
// forwarded.
type Posts struct {
	Rate    float64 // transactions per second of all clients, who take turns; default 50
	Burst   int     // at once; default 100
	MaxBody int64   // maximum request or message that is forwarded, in bytes; default 4 MiB
}

// WithDefaults replaces zero values by their defaults.
func (p Posts) WithDefaults() Posts {
	return Posts{cmp.Or(p.Rate, 50), cmp.Or(p.Burst, 100), cmp.Or(p.MaxBody, 4<<20)}
}

// maxPostWait is the longest wait of a transaction for its turn.
const maxPostWait = 2 * time.Second

// Posting makes clients take turns at sending transactions. All interfaces share one, so that a client does not
// get a turn in each.
type Posting struct {
	MaxBody int64 // as in Posts

	turns *queue.Tokens
}

// NewPosting returns a Posting with the defaults filled in.
func NewPosting(p Posts) *Posting {
	p = p.WithDefaults()
	return &Posting{p.MaxBody, queue.NewTokens(p.Rate, p.Burst, maxPostWait)}
}

// Acquire waits for the turn of a client, named as by [limits.Client.Name]. The error is a *failure.Failure with status
// 429 if the turn does not come soon, or the error of the context.
func (p *Posting) Acquire(ctx context.Context, client string) error {
	err := p.turns.Acquire(ctx, client)
	if errors.Is(err, queue.ErrLate) {
		return &failure.Failure{
			Status: http.StatusTooManyRequests, RetryAfter: time.Second, Expected: true,
			Public: "too many transactions are sent through this server at present",
		}
	}
	return err
}

// OfBroadcast returns the failure for an error of a broadcast. If a node may have the transaction, the failure names its hash, and
// the request that asks for it: ask, in which %X is the hash. tx is nil if it is not known.
func OfBroadcast(err error, tx []byte, ask string) error {
	if !upstream.MayHaveRun(err) {
		return err
	}
	f := &failure.Failure{Status: http.StatusGatewayTimeout, Err: err, Public: "the chain node did not answer, so it is not known whether it has the transaction"}
	if tx != nil {
		hash := sha256.Sum256(tx)
		f.Public += fmt.Sprintf(" %X; before you send another one, ask for it by "+ask, hash, hash)
	}
	return f
}
