package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/heights/comet"
)

// A Call is a call of a node's CometBFT RPC. The Body of its Answer is the member "result":… or "error":… of the
// node's reply, or the unchanged response to a Target.
type Call struct {
	Method string
	Params func(height int64) json.RawMessage // returns the parameters for a read at a height, 0 for the newest block
	Target string                             // a path with its query, read by GET instead of calling Method; may be ""
	Block  int64                              // block named in the parameters; 0 if none
	Write  bool                               // it may change state, so it is sent once
	Slow   bool                               // it waits for a block, so it does not queue with reads
	Size   int                                // size of the parameters in bytes, for which memory is reserved; 0 if the caller has reserved it
}

// queryMethod is the method that reads state. Only its results name the height at which the state was read.
const queryMethod = "abci_query"

func (e *endpoint) call(ctx context.Context, r Request, height int64) (*Answer, error) {
	if r.Call.Target != "" {
		return e.callURI(ctx, r)
	}
	held := e.client.memory.Open("", true)
	defer held.Close()
	if err := held.Take(2 * r.Call.Size); err != nil { // the parameters, and the request that they are in
		return nil, noMemory(err)
	}
	reply, err := e.comet.CallRaw(ctx, r.Call.Method, r.Call.Params(r.sentHeight(height)), !r.writes(), e.client.largest(r))
	switch {
	case err != nil:
		return nil, callFailed(err, reply.RetryAfter)
	case reply.Error != nil:
		return e.refusedCall(&reply, r.Call.Block, height)
	}
	a := &Answer{Status: http.StatusOK, NodeStatus: http.StatusOK, Body: member("result", reply.Result)}
	if r.Call.Method == queryMethod {
		a.readState(reply.Result, r.sentHeight(height))
		if r.Unpinned {
			a.blameBlock(r.Call.Block, height)
		}
		if a.Height == invalidHeight && r.Unpinned && r.Call.names(gjson.GetBytes(reply.Result, "response.height").Str) {
			a.Height = 0
		}
	}
	if a.Reason != OK && a.Reason != Refused && comet.IsShutdownError(a.Text) { // if the reason is Refused, a contract may have chosen the text
		return nil, upstream.Silence(nodeName, errors.New(a.Text))
	}
	return a, nil
}

// names reports whether the parameters of abci_query have a height, which some paths repeat in their responses, whatever it is.
func (c *Call) names(height string) bool {
	params := gjson.GetManyBytes(c.Params(0), "height", "2")
	return params[0].String() == height || params[1].String() == height
}

// uriID is the id in CometBFT's replies to URIs.
const uriID = "-1"

// callURI reads a URI of the RPC server. The client receives the response unchanged.
func (e *endpoint) callURI(ctx context.Context, r Request) (*Answer, error) {
	status, header, body, err := e.comet.Get(ctx, r.Call.Target, e.client.largest(r))
	if err != nil {
		return nil, callFailed(err, 0)
	}
	reply, typ := comet.Reply{Status: status, RetryAfter: upstream.RetryAfter(header)}, "application/json"
	err = json.Unmarshal(body, &reply)
	switch {
	case status == http.StatusNotFound && strings.HasPrefix(string(body), noRoute):
		typ = "text/plain; charset=utf-8"
	case err != nil:
		return nil, callFailed(fmt.Errorf("status %d: %w: %w", status, comet.ErrNoReply, err), reply.RetryAfter)
	case reply.Error != nil && (string(reply.ID) != uriID || !isFromComet(reply.Error)):
		return nil, e.gatewayCall(&reply)
	}
	// The reason is never OK, so that no caller decodes a result. The type is CometBFT's: browsers would render another one.
	return &Answer{Status: status, NodeStatus: status, Type: typ, Body: body, Reason: BadInput}, nil
}

func member(name string, value []byte) []byte {
	return slices.Concat([]byte(`"`+name+`":`), value)
}

// callFailed returns the error for a call without a reply. retry is the server's Retry-After, or 0.
func callFailed(err error, retry time.Duration) error {
	if errors.Is(err, comet.ErrNoReply) {
		failure := badAnswer(err)
		failure.RetryAfter = retry
		return failure
	}
	return readFailed(err)
}

// Codes in the codespace sdk with which abci_query refuses a height.
const (
	codeFuture = 26
	codeAbsent = 38
)

// readState reads the height and reason from a response of abci_query at the height asked, which may be 0. An error
// with a height comes from a handler, and a contract may have chosen its text.
func (a *Answer) readState(result []byte, asked int64) {
	members := gjson.GetManyBytes(result, "response.code", "response.log", "response.height", "response.codespace")
	code, text, height := members[0].Int(), members[1].String(), statedHeight(members[2].String())
	sdk := members[3].String() == "sdk"
	reason, _ := classify(abciQuery, text, asked)
	a.Height = height
	switch {
	case code == 0 && reason == Pruned:
		a.Reason, a.Height = Pruned, 0 // only this store of the application has pruned the height
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
	a.Text, a.Doubt = text, doubtOfLog(members[3].String(), code, text)
}

// isFromComet reports whether a JSON-RPC error comes from CometBFT and not from a server in front of it. Such servers also
// use the codes of calls that fail, so the text decides then.
func isFromComet(rpcError []byte) bool {
	code := gjson.GetBytes(rpcError, "code").Int()
	if code == comet.InternalError || code == comet.ServerError {
		_, known := classify(cometRPC, gjson.GetBytes(rpcError, "data").String(), 0)
		return known
	}
	return comet.IsOwnCode(code)
}

// tooLargeBody is the text of CometBFT for a body above its limit, which it does not read. So the error has no id.
const tooLargeBody = "error reading request body: http: request body too large"

// panicID is the id of CometBFT's error for a call whose handler has panicked.
const panicID = uriID

// refusedCall interprets an error of the RPC. block is the block named in the call, or 0. A block above the tip is the
// client's mistake.
func (e *endpoint) refusedCall(reply *comet.Reply, block, tip int64) (*Answer, error) {
	text := gjson.GetBytes(reply.Error, "data").String()
	switch {
	case comet.IsShutdownError(text):
		return nil, upstream.Silence(nodeName, errors.New(text))
	case !reply.Answers() && text != tooLargeBody && string(reply.ID) != panicID, !isFromComet(reply.Error):
		return nil, e.gatewayCall(reply)
	}
	a := &Answer{Status: http.StatusInternalServerError, NodeStatus: http.StatusInternalServerError, Body: member("error", reply.Error), Text: text}
	var known bool
	if a.Reason, known = classify(cometRPC, text, 0); !known {
		a.Reason = BadInput
	}
	a.blameBlock(block, tip)
	if noIndex.MatchString(text) || nilPanic.MatchString(text) || a.Reason == NotFound { // a transaction: see noTx
		a.Doubt = unproven
	}
	return a, nil
}

// blameBlock makes the refusal of a block that the chain does not have bad input. block is the one named in the call, or 0.
func (a *Answer) blameBlock(block, tip int64) {
	if (a.Reason == FutureHeight || a.Reason == Pruned) && (block == 0 || block > tip) {
		a.Reason = BadInput
	}
}

func (e *endpoint) gatewayCall(reply *comet.Reply) error {
	members := gjson.GetManyBytes(reply.Error, "code", "message", "data")
	said := upstream.Said{API: upstream.RPC, Code: members[0].Int(), Text: members[1].String(), Lost: reply.Status > http.StatusInternalServerError}
	if members[2].Type == gjson.String {
		said.Data = members[2].Str
	}
	return e.gateway(said, reply.RetryAfter)
}

// A CometBFT is the RPC client of one endpoint.
type CometBFT struct {
	*comet.Client
	pool     *Pool
	endpoint *endpoint
}

// CometBFT returns the RPC clients of the endpoints that have one, in configuration order. An endpoint whose RPC server has not
// answered since its configuration changed is represented by the client of its previous configuration.
func (p *Pool) CometBFT() (all []CometBFT) {
	for _, e := range p.endpoints() {
		if e = e.orBefore(Request{Call: &Call{}}); e.comet != nil {
			all = append(all, CometBFT{e.comet, p, e})
		}
	}
	return all
}

// Name returns the name of the endpoint.
func (c CometBFT) Name() string { return c.endpoint.name }

var methodLinks = regexp.MustCompile(`<a href="//[^"/]*/([a-z][a-z0-9_]*)`)

// Methods returns the methods that CometBFT lists. A gateway may not have the list.
func (c CometBFT) Methods(ctx context.Context) (names []string) {
	_, _, page, _ := c.Get(ctx, "/", c.endpoint.client.maxBody)
	for _, m := range methodLinks.FindAllSubmatch(page, -1) {
		names = append(names, string(m[1]))
	}
	return names
}

// NoEvents returns why the endpoint provides no usable events, or nil if it does.
func (c CometBFT) NoEvents() error { return c.endpoint.snapshot().NoEvents }

// Subscribe subscribes to messages, as [comet.Client.Messages] does. The subscription ends when the endpoint is removed.
func (c CometBFT) Subscribe(ctx context.Context, query string, maxBytes int64) (*Subscription, error) {
	m, err := c.Messages(ctx, query, maxBytes)
	if err != nil {
		return nil, err
	}
	return &Subscription{m, c.endpoint, context.AfterFunc(c.endpoint.life, m.Close)}, nil
}

// A Subscription is a subscription at an endpoint.
type Subscription struct {
	*comet.Messages
	endpoint *endpoint
	stop     func() bool
}

// Next waits for the next message and returns its result. The error is [upstream.ErrRemoved] if the endpoint was removed.
func (s *Subscription) Next(ctx context.Context) (json.RawMessage, error) {
	result, err := s.Messages.Next(ctx)
	if err != nil && s.endpoint.life.Err() != nil {
		err = upstream.ErrRemoved
	}
	return result, err
}

// Close ends the subscription at once.
func (s *Subscription) Close() {
	s.stop()
	s.Messages.Close()
}

// Fit reports whether the endpoint serves the chain, is trusted, is not catching up, and has the newest block or the one before
// it.
func (c CometBFT) Fit() bool {
	v := c.endpoint.snapshot()
	return c.endpoint.life.Err() == nil && !v.Foreign() && !v.Unseen && !v.Distrusted && !v.CometDown && !v.CatchingUp && v.Height >= c.pool.Tip().Height-1
}
