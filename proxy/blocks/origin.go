package blocks

import (
	"context"
	"errors"
	"fmt"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

// read is a [cache.Origin].
func (a *asking) read(ctx context.Context, before *cache.Entry) (*cache.Entry, error) {
	if a.q.Batch != nil {
		return a.compose(ctx, before)
	}
	q, r := a.q, a.request()
	r.Miss, r.Background, r.Ahead = before == nil, cache.InBackground(ctx), cache.Ahead(ctx)
	answer, err := fetch(ctx, q, r, before)
	if err = silence(answer, err, q.Pinned == 0, before != nil && q.Kind.policy.Load().Outlives(before)); err != nil {
		return nil, err
	}
	return q.Origin.Entry(answer, before)
}

// fetch asks the origin, for an audit as that wants it: with what the node has to spare.
func fetch(ctx context.Context, q *Query, r node.Request, before *cache.Entry) (*node.Answer, error) {
	reading := cache.ReadingOf(ctx)
	if reading == nil {
		return q.Origin.Fetch(ctx, r, before)
	}
	if reading.Audit {
		r.Height, r.Only, r.Avoid, r.Audit, r.Ahead = reading.Height, reading.Only, reading.Avoid, true, true
	}
	a, err := q.Origin.Fetch(ctx, r, before)
	if err == nil {
		reading.By = a.Node
		if a.Reason == node.OK || a.Reason == node.NotFound || a.Reason == node.BadInput || a.Reason == node.Refused {
			reading.At = a.Height
		}
	}
	return a, err
}

// silence is what the cache is to be told where a node gave no answer, nil where
// it did. A node that refuses a height of our choosing is behind, which says
// nothing to the client: an entry of any age is better. One that says it failed
// says nothing of what was asked, if an answer that can stand in is at hand.
func silence(a *node.Answer, err error, chosen, atHand bool) error {
	if err == nil && a.Reason == node.Other && atHand {
		return &upstream.Error{Kind: upstream.BadAnswer, Msg: "the chain node failed", Err: fmt.Errorf("status %d: %s", a.NodeStatus, a.Text)}
	}
	if err == nil && chosen && (a.Reason == node.FutureHeight || a.Reason == node.Pruned) {
		err = &upstream.Error{
			Kind: upstream.Unreachable, Msg: "the chain node is behind the newest block", Err: fmt.Errorf("%w: %s", upstream.ErrBehind, a.Text),
		}
	}
	switch {
	case errors.Is(err, upstream.ErrBehind):
		return fmt.Errorf("%w: %w", cache.ErrBehind, err)
	case errors.Is(err, upstream.ErrYielded):
		return fmt.Errorf("%w: %w", cache.ErrYielded, err)
	}
	return err
}
