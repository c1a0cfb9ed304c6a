package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/heights/comet"
)

// A Call is a method of a node's CometBFT RPC. Its Answer has as Body the member of the
// node's reply, "result":… or "error":…, or what the node answers to a Target, as it is.
type Call struct {
	Method string
	Params func(height int64) json.RawMessage // told the height to read at, 0 for the newest block
	Target string                             // a path with its query, asked by GET in place of Method; "" for none
	Block  int64                              // that the parameters name; 0 for none
	Write  bool                               // it may change something: it is sent to one node, once
	Slow   bool                               // it waits for a block: it takes no turn among the reads
	Size   int                                // of the parameters, in bytes, where they are much longer than a client's message
}

// queryMethod is the method that reads state. It alone tells heights.
const queryMethod = "abci_query"

// call asks a node's RPC once.
func (e *endpoint) call(ctx context.Context, r Request, height int64) (*Answer, error) {
	if r.Call.Target != "" {
		return e.callURI(ctx, r)
	}
	held := e.client.memory.Open("", true)
	defer held.Close()
	if err := held.Take(2 * r.Call.Size); err != nil { // the parameters, and the request that they are in
		return nil, noMemory(err)
	}
	reply, err := e.comet.Ask(ctx, r.Call.Method, r.Call.Params(r.told(height)), e.client.largest(r))
	switch {
	case err != nil:
		return nil, callFailed(err, reply.RetryAfter)
	case reply.Error != nil:
		return e.refusedCall(&reply, r.Call.Block, height)
	}
	a := &Answer{Status: http.StatusOK, NodeStatus: http.StatusOK, Body: member("result", reply.Result)}
	if r.Call.Method == queryMethod {
		a.readState(reply.Result, r.told(height))
	}
	if a.Reason != OK && a.Reason != Refused && comet.IsShutdownError(a.Text) { // Refused is what contracts have said
		return nil, upstream.Silence(origin, errors.New(a.Text))
	}
	return a, nil
}

// uriID is the id in CometBFT's replies to URIs.
const uriID = "-1"

// callURI asks a node by a URI, whose answer is the client's as it is.
func (e *endpoint) callURI(ctx context.Context, r Request) (*Answer, error) {
	status, header, body, err := e.comet.Get(ctx, r.Call.Target, e.client.largest(r))
	if err != nil {
		return nil, callFailed(err, 0)
	}
	reply := comet.Reply{Status: status, RetryAfter: upstream.RetryAfter(header)}
	unread := json.Unmarshal(body, &reply)
	switch {
	case status == http.StatusNotFound && strings.HasPrefix(string(body), noRoute):
	case unread != nil:
		return nil, callFailed(fmt.Errorf("status %d: %w: %w", status, comet.ErrNoReply, unread), reply.RetryAfter)
	case reply.Error != nil && (string(reply.ID) != uriID || !isOwn(reply.Error)):
		return nil, e.gatewayCall(&reply)
	}
	return &Answer{Status: status, NodeStatus: status, Type: header.Get("Content-Type"), Body: body, Reason: BadInput}, nil
}

func member(name string, value []byte) []byte {
	return slices.Concat([]byte(`"`+name+`":`), value)
}

// callFailed is the error for a call that got no reply. retry is when the server wants to be asked again, 0 for nothing.
func callFailed(err error, retry time.Duration) error {
	switch {
	case errors.Is(err, account.ErrTooLarge):
		return badAnswer(errTooLarge)
	case errors.Is(err, account.ErrFull):
		return noMemory(err)
	case errors.Is(err, comet.ErrNoReply):
		failure := badAnswer(err)
		failure.RetryAfter = retry
		return failure
	}
	return upstream.Silence(origin, err)
}

// Codes of the codespace sdk by which abci_query refuses a height.
const (
	codeFuture = 26
	codeAbsent = 38
)

// readState reads what a response of abci_query, asked at a height or 0, says of heights. An error that names its height
// comes from a handler, whose text may be a contract's.
func (a *Answer) readState(result []byte, asked int64) {
	said := gjson.GetManyBytes(result, "response.code", "response.log", "response.height", "response.codespace")
	code, text, height := said[0].Int(), said[1].String(), statedHeight(said[2].String())
	sdk := said[3].String() == "sdk"
	reason, _ := classify(abciQuery, text, asked)
	a.Height = height
	switch {
	case code == 0 && reason == Pruned:
		a.Reason, a.Height = Pruned, 0 // one store may lack a height that the others have
	case code == 0:
		return
	case height != 0:
		a.Reason = Refused
	case reason == FutureHeight, sdk && code == codeFuture:
		a.Reason, a.Height = FutureHeight, asked
	case reason == Pruned, sdk && code == codeAbsent:
		a.Reason, a.Height = Pruned, asked
	default:
		a.Reason = BadInput
	}
	a.Text = text
}

// Codes of JSON-RPC that CometBFT gives to calls that it cannot read, and to calls that fail.
const (
	parseError    = -32700
	invalidParams = -32602 // the last of three that begin with an invalid request
	invalidCall   = -32600
	internalError = -32603
	serverError   = -32000
)

// isOwn reports whether an error of JSON-RPC is CometBFT's own, and not one of a server in front of it.
func isOwn(said []byte) bool {
	code := gjson.GetBytes(said, "code").Int()
	switch {
	case code == parseError, invalidParams <= code && code <= invalidCall:
		return true
	case code == internalError, code == serverError:
		_, known := classify(cometRPC, gjson.GetBytes(said, "data").String(), 0)
		return known
	}
	return false
}

// refusedCall reads an error of the RPC, of a call that names a block or none. A block that has not come is the client's
// mistake.
func (e *endpoint) refusedCall(reply *comet.Reply, block, tip int64) (*Answer, error) {
	text := gjson.GetBytes(reply.Error, "data").String()
	switch {
	case comet.IsShutdownError(text):
		return nil, upstream.Silence(origin, errors.New(text))
	case !reply.Answers() || !isOwn(reply.Error):
		return nil, e.gatewayCall(reply)
	}
	a := &Answer{Status: http.StatusInternalServerError, NodeStatus: http.StatusInternalServerError, Body: member("error", reply.Error), Text: text}
	var known bool
	if a.Reason, known = classify(cometRPC, text, 0); !known || (a.Reason == FutureHeight || a.Reason == Pruned) && (block == 0 || block > tip) {
		a.Reason = BadInput
	}
	return a, nil
}

// gatewayCall is the error for a reply that is not the node's own.
func (e *endpoint) gatewayCall(reply *comet.Reply) error {
	said := gjson.GetManyBytes(reply.Error, "code", "message", "data")
	text := said[1].String()
	if said[2].Type == gjson.String && said[2].Str != "" {
		text += ": " + said[2].Str
	}
	return e.gateway(upstream.RPC, said[0].Int(), text, reply.RetryAfter)
}

// A CometBFT is the RPC of one endpoint.
type CometBFT struct {
	*comet.Client
	pool     *Pool
	endpoint *endpoint
}

// CometBFT is the RPC of each endpoint that has one, in the order they were configured.
func (p *Pool) CometBFT() (all []CometBFT) {
	for _, e := range p.endpoints() {
		if e.comet != nil {
			all = append(all, CometBFT{e.comet, p, e})
		}
	}
	return all
}

// Name returns the name of the endpoint.
func (c CometBFT) Name() string { return c.endpoint.name }

// NoEvents returns why events cannot be read from the endpoint, nil where they can.
func (c CometBFT) NoEvents() error { return c.endpoint.look().NoEvents }

// Subscribe subscribes to messages, as [comet.Client.Messages] does. The subscription ends when the endpoint is removed.
func (c CometBFT) Subscribe(ctx context.Context, query string, most int64) (*Subscription, error) {
	m, err := c.Messages(ctx, query, most)
	if err != nil {
		return nil, err
	}
	return &Subscription{m, context.AfterFunc(c.endpoint.life, m.Close)}, nil
}

// A Subscription is that of an endpoint.
type Subscription struct {
	*comet.Messages
	stop func() bool
}

// Close ends the subscription at once.
func (s *Subscription) Close() {
	s.stop()
	s.Messages.Close()
}

// Fit says whether the endpoint is ours, is believed, and has the newest block or the one before it.
func (c CometBFT) Fit() bool {
	v := c.endpoint.look()
	return c.endpoint.life.Err() == nil && !v.Foreign() && !v.Unseen && !v.Distrusted && !v.CometDown && !v.CatchingUp && v.Height >= c.pool.Tip().Height-1
}
