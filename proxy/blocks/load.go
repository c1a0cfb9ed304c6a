package blocks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/node"
)

// A loader reads the nodes for a Read on a miss, on behalf of a client.
type loader struct {
	*Reader
	q      *Read
	client string // as [limits.Client.Name]
	many   bool   // the client may be many clients, or its reads are limited elsewhere
}

func (l *loader) get(ctx context.Context, query cache.Query) (cache.Result, error) {
	if !l.many {
		query.Client = l.client
	}
	return l.cache.Get(ctx, query, l)
}

// request returns the request to a node.
func (l *loader) request() node.Request {
	ask := l.q.Ask
	ask.Height, ask.Unpinned, ask.Client = cmp.Or(l.q.Pinned, node.AtTip), !l.q.Kind.Class.ReadsState(), l.client
	return ask
}

// Expected implements [cache.Loader].
func (l *loader) Expected(background bool) time.Duration {
	ask := l.request()
	ask.Background = background
	return l.Nodes.Expected(ask)
}

// Load implements [cache.Loader]. It decides which answers of a node are failures, and when an entry is provisional.
func (l *loader) Load(ctx context.Context, how cache.How) (*cache.Entry, error) {
	q, before := l.q, how.Before
	if q.Batch != nil {
		return l.compose(ctx, how)
	}
	if q.Size > maxRetained {
		release, err := l.Stack.HoldRead(l.client, l.many, q.Size)
		defer release()
		switch {
		case errors.Is(err, account.ErrShare): // of this client; other callers of the flight may read for themselves
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("%w: %w", cache.ErrOverloaded, err)
		}
	}
	ask := l.request()
	ask.Miss, ask.Background, ask.Ahead = before == nil, how.For == cache.ForBackground, how.For == cache.ForAhead
	tip := l.Nodes.Tip().Height
	answer, err := q.Source.Ask(ctx, q, ask, before)
	if err == nil && ask.Unpinned && answer.Height == 0 { // it is at least as new as the tip before the read
		at := *answer
		at.Height, answer = tip, &at
	}
	chosen := q.Pinned == 0 && q.Kind.Class != Block // tipcache chose the height: a query of a block contains it
	if err = checkAnswer(answer, err, chosen, before != nil && q.Kind.policy.Load().ServesPastExpires(before.Stamp())); err != nil {
		return nil, err
	}
	entry, err := q.Source.Entry(q, answer, before)
	if err == nil {
		entry.ReadAt = entry.ReadAt.Add(-answer.Age)
		entry.Provisional = answer.Unsettled && !q.Kind.Class.Fixed()
		if answer.Unkept {
			entry.Expires = entry.ReadAt
		}
	}
	return entry, err
}

// checkAnswer returns the error that the cache receives; nil for an answer to keep. A node that refuses a height chosen by us, or has
// pruned it, is behind: an entry of any age is better than its answer. If an entry can be served (hasEntry), a node's report that it
// failed is an error as well, and so is an answer that speaks only of the node.
func checkAnswer(a *node.Answer, err error, chosen, hasEntry bool) error {
	if err == nil && (a.Reason == node.Other || a.Unkept) && hasEntry {
		return &upstream.Error{Kind: upstream.BadAnswer, Msg: "the chain node failed", Err: fmt.Errorf("status %d: %s", a.NodeStatus, a.Text)}
	}
	if err == nil && chosen && (a.Reason == node.FutureHeight || a.Reason == node.Pruned) {
		err = &upstream.Error{
			Kind: upstream.Unreachable, Msg: "the chain node is behind the newest block", Err: fmt.Errorf("%w: %s", upstream.ErrBehind, a.Text),
		}
	}
	return err
}

// NewEntry returns an entry without content for a node's answer. Its height is the tip's if the answer has none, or says
// that the node lacks the block.
func (r *Reader) NewEntry(a *node.Answer) *cache.Entry {
	e := &cache.Entry{Height: a.Height, ReadAt: time.Now()}
	if e.Height == 0 || a.Reason == node.Pruned || a.Reason == node.FutureHeight {
		e.Height = r.Nodes.Tip().Height // the answer is valid at the tip
	}
	return e
}

// SetContent sets the content of an entry, whose body is a node's answer. It reuses the content of the previous entry (nil for
// none) if that is the same and lasts as well, and reports whether the content is new.
func SetContent(e, before *cache.Entry, status int, typ string, body []byte, lasts bool) (isNew bool) {
	var source uint64
	if lasts {
		source = cache.Lasting
	}
	e.Content = cache.NewContentAfter(before, status, typ, "", body, source)
	if lasts && before != nil && before.Source == source && before.ETag == e.ETag {
		e.Content = before.Content
		return false
	}
	return true
}

// Lasts reports whether an answer is valid until the policy says otherwise. Missing heights and possible failures are valid
// only briefly.
func Lasts(a *node.Answer) bool {
	switch a.Reason {
	case node.Other, node.Ambiguous, node.Rejected, node.Pruned, node.FutureHeight:
		return false
	default:
		return !a.Unkept
	}
}

// A node's index may lag indexLag behind a block. Until then answers are cached for unindexedLifetime.
const (
	indexLag          = 500 * time.Millisecond
	unindexedLifetime = 50 * time.Millisecond
)

// IndexedExpiry returns the Expires of an entry from a node's index, such as a transaction or a search. Zero means that
// only the policy applies. A found answer that is final never changes.
func IndexedExpiry(found, final bool, now time.Time, tip node.Tip) time.Time {
	switch {
	case found && final:
		return time.Time{}
	case now.Sub(tip.Since) < indexLag:
		return now.Add(unindexedLifetime)
	case !found:
		return now.Add(tip.Interval)
	default:
		return time.Time{}
	}
}

// BrokenLife is the lifetime of a failure of a node. It prevents a stampede of reads.
const BrokenLife = time.Second

// Expiry returns when an answer about the state expires in addition to its policy; zero for no such time. negative is
// the lifetime of a negative answer. An answer that something is missing lasts for two blocks, if those take longer: it
// cannot change before the next block, which may be late.
func Expiry(a *node.Answer, now time.Time, tip node.Tip, negative time.Duration) time.Time {
	if a.Brief && a.Reason == node.Refused {
		return now.Add(negative)
	}
	switch a.Reason {
	case node.OK, node.Refused: // part of the state
		return time.Time{}
	case node.FutureHeight:
		return now.Add(tip.Interval / 4)
	case node.Other, node.Rejected:
		return now.Add(BrokenLife)
	case node.NotFound, node.BadInput:
		return now.Add(max(negative, 2*tip.Interval))
	default:
		return now.Add(negative)
	}
}
