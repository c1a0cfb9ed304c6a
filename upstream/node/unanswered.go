package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// origin is what clients of the proxy get to read about the origin that did not answer.
const origin = "the chain node"

var (
	errTooLarge   = errors.New("answer is larger than allowed")
	errNoNode     = errors.New("server error that is not the node's") // a load balancer's 502, say
	errClosed     = errors.New("closed")
	errWrongChain = errors.New("serves another chain")
	errTipRefused = errors.New("refuses to read the newest block")

	// errUndetermined: in the wrong dialect an answer could be taken for another.
	errUndetermined = errors.New("no node has said which dialect it speaks")
)

// exhausted returns the result where no endpoint is left. A height is reported as pruned only if every endpoint that may
// have it was asked.
func (f *fetch) exhausted() (*Answer, error) {
	switch {
	case f.silence != nil:
		return nil, f.silence
	case f.pruned != nil && !f.resting:
		return f.refusal(), nil
	case f.far && !f.resting:
		return nil, &upstream.Error{
			Kind: upstream.Overloaded, Msg: origin + " is too far behind its chain",
			Err: upstream.ErrBehind, RetryAfter: max(nearby*f.pool.Tip().Interval, time.Second),
		}
	default:
		return nil, f.pool.noEndpoint()
	}
}

// refusal returns the answer of an endpoint that no longer has the height, as the answer of all.
func (f *fetch) refusal() *Answer {
	a, newest := *f.pruned, f.pool.Tip().Height
	a.Text = fmt.Sprintf("failed to load state at height %d: no node has kept it (latest height: %d)", f.height(), newest)
	a.Status, a.Latest = Pruned.Status(), newest
	return &a
}

// noEndpoint is the error where no endpoint may be asked.
func (p *Pool) noEndpoint() error {
	var reasons []error
	foreign := 0
	for _, e := range p.endpoints() {
		v := e.look()
		if v.Foreign() {
			v.restErr, foreign = errWrongChain, foreign+1
		}
		if v.restErr != nil {
			reasons = append(reasons, fmt.Errorf("%s: %w", e.name, v.restErr))
		}
	}
	err := unreachable(errors.Join(reasons...))
	if len(p.endpoints()) == 0 {
		err.Msg = "no chain node is configured"
	} else if foreign == len(p.endpoints()) {
		err.Msg = origin + " serves another chain than " + p.ChainID()
	}
	return err
}

// unreachable is the error where no endpoint could be asked.
func unreachable(err error) *upstream.Error {
	return &upstream.Error{
		Kind: upstream.Unreachable, Msg: origin + " cannot be reached", Err: err, RetryAfter: breakerOpen,
	}
}

// late is the error for a block that did not come before ctx ended.
func (p *Pool) late(ctx context.Context, height int64) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	msg := fmt.Sprintf("%s does not have block %d yet", origin, height)
	if height == 0 {
		msg = origin + " has not answered yet"
	}
	return &upstream.Error{
		Kind: upstream.Timeout, Msg: msg, Err: ctx.Err(), RetryAfter: max(p.Tip().Interval, time.Second),
	}
}

// busy is the error for a request that got no turn.
func (e *endpoint) busy(r Request, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	busy := &upstream.Error{Kind: upstream.Overloaded, Msg: origin + " is busy", Err: err}
	if !errors.Is(err, upstream.ErrYielded) {
		busy.RetryAfter = time.Second
		if r.Cost != Unknown {
			e.metrics.shed.WithLabelValues(e.name).Inc()
		}
	}
	return busy
}

// badAnswer is the error for what is no answer of a node, or not one that is whole.
func badAnswer(err error) *upstream.Error {
	return &upstream.Error{Kind: upstream.BadAnswer, Msg: origin + " gave an unusable answer", Err: err}
}

// noMemory is the error for an exchange that there is no memory for now.
func noMemory(err error) *upstream.Error {
	return &upstream.Error{Kind: upstream.Overloaded, Msg: "too little memory is free to query " + origin, Err: err, RetryAfter: time.Second}
}

// tipRefused is the error for a node that says of the newest block that it has pruned it.
func tipRefused(a *Answer) *upstream.Error {
	return &upstream.Error{Kind: upstream.BadAnswer, Msg: origin + " refuses to read the newest block", Err: fmt.Errorf("%w: %w: %s", upstream.ErrBehind, errTipRefused, a.Text)}
}

// gateway is the error for what a server in front of the node says in its place, such as that a rate is exceeded.
func (e *endpoint) gateway(api upstream.API, code int64, text string, retry time.Duration) *upstream.Error {
	if text = e.client.hide.Replace(text); e.comet != nil {
		text = e.comet.Redact(text)
	}
	if len(text) > upstream.MaxSaid {
		text = strings.ToValidUTF8(text[:upstream.MaxSaid], "")
	}
	failure := badAnswer(fmt.Errorf("%s code %d: %s", api, code, text))
	failure.RetryAfter, failure.Said = retry, &upstream.Said{API: api, Code: code, Text: text}
	return failure
}

// notNode is the error for an answer that did not come from a node.
func notNode(r *http.Response) *upstream.Error {
	cause := fmt.Errorf("status %d without the node's envelope", r.StatusCode)
	if r.StatusCode >= http.StatusInternalServerError {
		cause = fmt.Errorf("status %d: %w", r.StatusCode, errNoNode)
	}
	failure := badAnswer(cause)
	failure.RetryAfter = upstream.RetryAfter(r.Header)
	return failure
}

// blames tells failures that speak against the node. A connection dropped without an answer does
// not: a query that makes the node's handler panic must not take the node away from all clients.
func blames(err error) bool {
	return upstream.KindOf(err) == upstream.Timeout || refuses(err) || errors.Is(err, errNoNode)
}

// refuses tells a failed dial: nothing listens there now.
func refuses(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// blamesGRPC tells failures that speak against a node's gRPC server.
func blamesGRPC(err error) bool {
	kind := upstream.KindOf(err)
	return kind == upstream.Timeout || kind == upstream.Unreachable
}
