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
	"github.com/tipcache/tipcache/upstream/account"
)

const nodeName = "the chain node"

// ErrForeign is the error of a response below 500 that is not in a node's form, such as an HTML page.
var ErrForeign = errors.New("without the node's envelope")

var (
	errTooLarge   = errors.New("response exceeds the size limit")
	errNotNode    = errors.New("server error that does not come from the node") // such as a load balancer's 502
	errClosed     = errors.New("closed")
	errWrongChain = errors.New("serves another chain")
	errTipRefused = errors.New("refuses to read the newest block")

	// errGRPCBehind does not wrap upstream.ErrBehind, because the node can serve the request by RPC.
	errGRPCBehind = badAnswer(errors.New("its gRPC server is behind its other servers"))

	errRefusedByParent = errors.New("refused by another tipcache")
)

// exhausted returns the result if no endpoint is left. It reports a height as pruned only if every endpoint that may have
// it has refused it. Endpoints that have not responded for a long time do not count; see awaits.
func (f *fetch) exhausted() (*Answer, error) {
	switch {
	case f.doubtful != nil:
		return f.doubtful, nil
	case f.pruned != nil && !f.broken && !f.far && !f.mayHave:
		return f.refusal(), nil
	case f.failure != nil:
		return nil, f.failure
	case f.far && !f.broken:
		return nil, &upstream.Error{
			Kind: upstream.Overloaded, Msg: nodeName + " is too far behind its chain",
			Err: upstream.ErrBehind, RetryAfter: max(maxWaitLag*f.pool.Tip().Interval, time.Second),
		}
	default:
		return nil, f.pool.noEndpoint()
	}
}

// refusal returns the refusal of an endpoint that has pruned the height, reworded for all endpoints.
func (f *fetch) refusal() *Answer {
	a, tip := *f.pruned, f.pool.Tip()
	a.Text = fmt.Sprintf("failed to load state at height %d: no node has kept it (latest height: %d)", f.height(tip), tip.Height)
	a.Status, a.Latest = Pruned.Status(), tip.Height
	return &a
}

func (p *Pool) noEndpoint() error {
	var reasons []error
	foreign := 0
	for _, e := range p.endpoints() {
		v := e.snapshot()
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
		err.Msg = nodeName + " serves another chain than " + p.ChainID()
	}
	return err
}

func unreachable(err error) *upstream.Error {
	return &upstream.Error{
		Kind: upstream.Unreachable, Msg: nodeName + " cannot be reached", Err: err, RetryAfter: breakerOpen,
	}
}

// late returns the error for a block that did not arrive before ctx ended.
func (p *Pool) late(ctx context.Context, height int64) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	msg := fmt.Sprintf("%s does not have block %d yet", nodeName, height)
	if height == 0 {
		msg = nodeName + " has not answered yet"
	}
	return &upstream.Error{
		Kind: upstream.Timeout, Msg: msg, Err: ctx.Err(), RetryAfter: max(p.Tip().Interval, time.Second),
	}
}

func (e *endpoint) busy(r Request, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	busy := &upstream.Error{Kind: upstream.Overloaded, Msg: nodeName + " is busy", Err: err}
	if !errors.Is(err, upstream.ErrYielded) {
		busy.RetryAfter = time.Second
		if r.Cost != Unknown {
			e.metrics.shed.WithLabelValues(e.name).Inc()
		}
	}
	return busy
}

func badAnswer(err error) *upstream.Error {
	return &upstream.Error{Kind: upstream.BadAnswer, Msg: nodeName + " gave an unusable answer", Err: err}
}

func readFailed(err error) *upstream.Error {
	switch {
	case errors.Is(err, account.ErrTooLarge):
		return badAnswer(errTooLarge)
	case errors.Is(err, account.ErrFull):
		return noMemory(err)
	default:
		return upstream.Silence(nodeName, err)
	}
}

func noMemory(err error) *upstream.Error {
	return &upstream.Error{Kind: upstream.Overloaded, Msg: "too little memory is free to query " + nodeName, Err: err, RetryAfter: time.Second}
}

// tipRefused returns the error for a node that claims to have pruned the newest block.
func tipRefused(a *Answer) *upstream.Error {
	return &upstream.Error{Kind: upstream.BadAnswer, Msg: nodeName + " refuses to read the newest block", Err: fmt.Errorf("%w: %w: %s", upstream.ErrBehind, errTipRefused, a.Text)}
}

// gateway returns the error for a refusal by a server in front of the node, such as an exceeded rate limit.
func (e *endpoint) gateway(said upstream.Said, retry time.Duration) *upstream.Error {
	said.Text, said.Data = e.cleanSaid(said.Text), e.cleanSaid(said.Data)
	text := said.Text
	if said.Data != "" {
		text += ": " + said.Data
	}
	failure := badAnswer(fmt.Errorf("%s code %d: %s", said.API, said.Code, text))
	failure.RetryAfter, failure.Said = retry, &said
	return failure
}

// cleanSaid returns a text without credentials, and cuts it.
func (e *endpoint) cleanSaid(text string) string {
	if text = e.client.hide.Replace(text); e.comet != nil {
		text = e.comet.Redact(text)
	}
	if len(text) > upstream.MaxSaid {
		text = strings.ToValidUTF8(text[:upstream.MaxSaid], "")
	}
	return text
}

func notNode(r *http.Response) *upstream.Error {
	cause := fmt.Errorf("status %d %w", r.StatusCode, ErrForeign)
	if r.StatusCode >= http.StatusInternalServerError {
		cause = fmt.Errorf("status %d: %w", r.StatusCode, errNotNode)
	}
	failure := badAnswer(cause)
	failure.RetryAfter = upstream.RetryAfter(r.Header)
	return failure
}

// isNodeFailure reports whether an error is a failure of the node itself. A connection closed without a response is not:
// otherwise a query that makes the node's handler panic would disable the node for all clients.
func isNodeFailure(err error) bool {
	return upstream.KindOf(err) == upstream.Timeout || isDialError(err) || errors.Is(err, errNotNode)
}

func isDialError(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

// isGRPCFailure reports whether an error is a failure of the node's gRPC server itself.
func isGRPCFailure(err error) bool {
	kind := upstream.KindOf(err)
	return kind == upstream.Timeout || kind == upstream.Unreachable
}
