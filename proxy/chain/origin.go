package chain

import (
	"cmp"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/chain/documented"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

// Fetch asks a node for a path that was escaped here.
func (q *question) Fetch(ctx context.Context, r node.Request, prev *cache.Entry) (*node.Answer, error) {
	r.Path, r.Query = q.Path, q.RawQuery
	a, err := q.Nodes.Fetch(ctx, r)
	if err != nil {
		return nil, err
	}
	return q.good.judge(q, a, prev, time.Now()), nil
}

// Entry makes what is cached of a node's answer. An answer that did not change
// is not shaped again.
func (q *question) Entry(a *node.Answer, prev *cache.Entry) (*cache.Entry, error) {
	now, status, height := time.Now(), a.Status, a.Height
	if q.asSent {
		status = a.NodeStatus
	}
	if a.Reason == node.Pruned || a.Reason == node.FutureHeight {
		height = 0 // nothing was read there
	}
	source := dialect.Source(q.seed, a)
	stamp := q.stampFor(prev, height)
	if prev != nil && source != 0 && prev.Source == source && prev.Status == status && stamp.keeps {
		return prev.Confirm(height, now), nil
	}
	content, err := q.content(a, status, source, stamp)
	if err != nil {
		return nil, err
	}
	content.Failed = a.Reason == node.Other
	return &cache.Entry{Content: content, Height: height, ReadAt: now, Expires: q.expiry(a, now)}, nil
}

// expiry bounds the life of answers that say no, on top of their policy: what
// is unknown now may be known in a block.
func (q *question) expiry(a *node.Answer, now time.Time) time.Time {
	switch a.Reason {
	case node.OK:
		return time.Time{}
	case node.Other, node.Rejected:
		return now.Add(dialect.BrokenLife)
	default:
		return now.Add(q.Negative())
	}
}

// content shapes a node's answer, and stamps its next page key.
func (q *question) content(a *node.Answer, status int, source uint64, stamp stamp) (*cache.Content, error) {
	if q.asSent {
		return cache.NewContentAfter(stamp.before, status, a.Type, "", a.Body, source), nil
	}
	if status != http.StatusOK {
		return cache.NewContent(status, web.JSON, "", ErrorEnvelope(status, q.refusal(a)), source), nil
	}
	shaped, err := documented.Shape(a.Body, q.Msg)
	if err != nil {
		return nil, &upstream.Error{Kind: upstream.BadAnswer, Msg: "the chain node's answer cannot be understood", Err: err}
	}
	return stamp.content(&shaped, source), nil
}

// refusal says what was asked for and is not there, and then what the node said.
func (q *question) refusal(a *node.Answer) string {
	said := cmp.Or(a.Text, http.StatusText(a.Status))
	if a.Reason == node.NotFound {
		return "nothing found at " + string(dialect.AppendPath(nil, q.Path)) + ": " + said
	}
	return said
}

// nextLink is the Link to the page after this one, for lists that have no
// other place to name it.
func (q *question) nextLink(nextKey string) string {
	if nextKey == "" {
		return ""
	}
	v := dialect.Values{{Name: dialect.PageKey, Text: nextKey}} // which says the rest
	if q.limit > 0 {
		v = append(v, dialect.Value{Name: dialect.PageLimit, Text: strconv.FormatUint(q.limit, 10)})
	}
	if q.reverse {
		v = append(v, dialect.Value{Name: dialect.PageReverse, Text: "true"})
	}
	return string(append(v.Append(append(dialect.AppendPath([]byte{'<'}, q.Path), '?')), `>; rel="next"`...))
}
