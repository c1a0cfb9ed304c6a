package blocks

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/node"
)

// load reads a query through the cache if memory has no fresh entry. If the request has waited for an item, such as a
// transaction (see web.WithItem), load returns the entry that the wait read. It does not read again, because the entry
// may have expired, and one read per block answers all requests that wait. If an event notified the client about a
// block, load waits once for an entry from that block.
func (r *Reader) load(ctx context.Context, from *http.Request, rec *record.Record, q *Query, a *Result) (err error) {
	if item := web.ItemOf(from); item != nil {
		a.Result = cache.Result{Entry: item, Outcome: cache.Hit, Store: "memory"}
		return nil
	}
	read := &originRead{Reader: r, q: q, from: from, rec: rec}
	epoch := a.Tip.Epoch
	notified, givenUp := r.Stack.NotifiedBlock(from, epoch)
	if notified > a.Query.MinHeight && notified <= a.Query.Tip && !a.pinned && !a.Query.Policy.Immutable {
		a.notified = notified
		if !givenUp {
			if res, ok := read.getNotified(ctx, a.Query, epoch, notified); ok {
				a.Result = res
				return nil
			}
		}
	}
	a.Result, err = read.get(ctx, a.Query)
	return err
}

// maxNotifiedWait is the longest wait for an entry from a block that the client was notified about, if an older entry could be
// served. A proxy that does not name its clients counts as one client. Because only one of its users may have received the
// event, the wait is then as short as for any newer block.
const maxNotifiedWait = 5 * time.Second

// getNotified reads an entry that is no older than the block that the client was notified about. It returns false
// if no node answered in time. The response may then be older and is marked as stale, and later requests do not
// wait for that block.
func (a *originRead) getNotified(ctx context.Context, query cache.Query, epoch, notified int64) (res cache.Result, ok bool) {
	from := a.from // get may set it to nil
	wait := maxNotifiedWait
	if a.Stack.Admission.Trusts(a.Stack.Admission.AddressOf(from)) {
		wait = cache.Patience(a.o.Patience, a.Nodes.Tip().Interval)
	}
	limit, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	query.MinHeight = notified
	res, err := a.get(limit, query)
	if err != nil && ctx.Err() == nil {
		a.Stack.GiveUpOn(from, epoch, notified)
	}
	return res, err == nil
}

// originRead reads the origin of a query on a miss, on behalf of a client. A read ahead uses the originRead of an
// earlier request again at each block, so originRead drops the request once it knows the client's name.
type originRead struct {
	*Reader
	q *Query

	mu     sync.Mutex
	from   *http.Request // with rec, until client is known
	rec    *record.Record
	client string
	many   bool // the client may be many clients, or its reads are limited elsewhere
}

func (a *originRead) get(ctx context.Context, query cache.Query) (cache.Result, error) {
	if client := a.name(); !a.many {
		query.Client = client
	}
	return a.cache.Get(ctx, query, a)
}

// Expected implements [cache.Loader].
func (a *originRead) Expected(background bool) time.Duration {
	r := a.request()
	r.Background = background
	return a.Nodes.Expected(r)
}

// request returns the request to a node; the origin adds the path.
func (a *originRead) request() node.Request {
	return node.Request{Height: cmp.Or(a.q.Pinned, node.AtTip), Unpinned: !a.q.Kind.Class.ReadsState(), Cost: a.q.Cost, Client: a.name()}
}

func (a *originRead) name() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.from != nil {
		a.client, a.many = a.rec.Client.Name(), a.Stack.Admission.IsMany(&a.rec.Client)
		a.from, a.rec = nil, nil
	}
	return a.client
}

// Load implements [cache.Loader].
func (a *originRead) Load(ctx context.Context, how cache.How) (*cache.Entry, error) {
	if a.q.Batch != nil {
		return a.compose(ctx, how)
	}
	before := how.Before
	q, r := a.q, a.request()
	if q.Size > maxRetained {
		release, err := a.Stack.HoldRead(r.Client, a.many, q.Size)
		defer release()
		switch {
		case errors.Is(err, account.ErrShare): // of this client; other callers of the flight may read for themselves
			return nil, err
		case err != nil:
			return nil, fmt.Errorf("%w: %w", cache.ErrOverloaded, err)
		}
	}
	r.Miss, r.Background, r.Ahead = before == nil, how.For == cache.ForBackground, how.For == cache.ForAhead
	tip := a.Nodes.Tip().Height
	answer, err := q.Origin.Fetch(ctx, r, before)
	if err == nil && r.Unpinned && answer.Height == 0 { // it is at least as new as the tip before the read
		at := *answer
		at.Height, answer = tip, &at
	}
	chosen := q.Pinned == 0 && q.Kind.Class != Block // the query of a block names it
	if err = checkAnswer(answer, err, chosen, before != nil && q.Kind.policy.Load().ServesPastExpires(before.Stamp())); err != nil {
		return nil, err
	}
	entry, err := q.Origin.Entry(answer, before)
	if err == nil {
		entry.ReadAt = entry.ReadAt.Add(-answer.Age)
		entry.Provisional = answer.Unsettled && !q.Kind.Class.Fixed()
		if answer.Unkept {
			entry.Expires = entry.ReadAt
		}
	}
	return entry, err
}

// checkAnswer returns the error that the cache receives, or nil if the node answered. A node that refuses a height
// chosen by us is behind: an entry of any age is better than its answer. If an entry can be served (hasEntry), a
// node's report that it failed is an error as well, and so is an answer that speaks only of the node.
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

// NewEntry returns an entry without content for a node's answer. Its height is the tip's if the answer has none, and for
// answers that the node lacks the block.
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
	if isNew = !lasts || before == nil || before.Source != source || before.ETag != e.ETag; !isNew {
		e.Content = before.Content
	}
	return isNew
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
