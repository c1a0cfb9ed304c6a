package node

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

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
}

// queryMethod is the method that reads state. It alone tells heights.
const queryMethod = "abci_query"

// call asks a node's RPC once.
func (e *endpoint) call(ctx context.Context, r Request, height int64) (*Answer, error) {
	if r.Call.Target != "" {
		status, typ, body, err := e.comet.Get(ctx, r.Call.Target, e.client.maxBody)
		if err != nil {
			return nil, callFailed(err)
		}
		return &Answer{Status: status, NodeStatus: status, Type: typ, Body: body, Reason: BadInput}, nil
	}
	reply, err := e.comet.Ask(ctx, r.Call.Method, r.Call.Params(r.told(height)), e.client.maxBody)
	switch {
	case err != nil:
		return nil, callFailed(err)
	case reply.Result == nil:
		return living(refusedCall(reply.Error, r.Call.Block, height))
	}
	a := &Answer{Status: http.StatusOK, NodeStatus: http.StatusOK, Body: member("result", reply.Result)}
	if r.Call.Method == queryMethod {
		a.readState(reply.Result, r.told(height))
	}
	return living(a)
}

// living is an answer, or silence where the node shuts down. Refused is what contracts have said.
func living(a *Answer) (*Answer, error) {
	if a.Reason != OK && a.Reason != Refused && comet.Closing(a.Text) {
		return nil, upstream.Silence(origin, errors.New(a.Text))
	}
	return a, nil
}

func member(name string, value []byte) []byte {
	return slices.Concat([]byte(`"`+name+`":`), value)
}

func callFailed(err error) error {
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, account.ErrTooLarge):
		return badAnswer(errTooLarge)
	case errors.Is(err, account.ErrFull):
		return noMemory(err)
	case errors.As(err, &syntax):
		return badAnswer(err)
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
	code, text, height := said[0].Int(), said[1].String(), said[2].Int()
	sdk := said[3].String() == "sdk"
	reason, _ := classify(abciQuery, text, asked)
	a.Height = height
	switch {
	case code == 0 && reason == Pruned:
		a.Reason, a.Height = Pruned, 0 // one store may lack a height that the others have
	case code == 0:
		return
	case height > 0 && (asked == 0 || height == asked):
		a.Reason = Refused
	case height > 0:
		a.Reason = BadInput
	case reason == FutureHeight, sdk && code == codeFuture:
		a.Reason, a.Height = FutureHeight, asked
	case reason == Pruned, sdk && code == codeAbsent:
		a.Reason, a.Height = Pruned, asked
	default:
		a.Reason = BadInput
	}
	a.Text = text
}

// refusedCall is what an error of the RPC means, of a call that names a block or none. A
// block that has not come is the client's mistake.
func refusedCall(said []byte, block, tip int64) *Answer {
	text := gjson.GetBytes(said, "data").String()
	a := &Answer{Status: http.StatusInternalServerError, NodeStatus: http.StatusInternalServerError, Body: member("error", said), Text: text}
	var known bool
	if a.Reason, known = classify(cometRPC, text, 0); !known || (a.Reason == FutureHeight || a.Reason == Pruned) && (block == 0 || block > tip) {
		a.Reason = BadInput
	}
	return a
}

// A CometBFT is the RPC of one endpoint.
type CometBFT struct {
	*comet.Client
	pool     *Pool
	endpoint *endpoint
}

// CometBFT is the RPC of each endpoint that has one, in the order they were configured.
func (p *Pool) CometBFT() (all []CometBFT) {
	for _, e := range p.endpoints {
		if e.comet != nil {
			all = append(all, CometBFT{e.comet, p, e})
		}
	}
	return all
}

// Name is that of the endpoint.
func (c CometBFT) Name() string { return c.endpoint.name }

// Fit says whether the endpoint is ours, is believed, and has the newest block or the one before it.
func (c CometBFT) Fit() bool {
	v := c.endpoint.look()
	return !v.Foreign() && !v.Unseen && !v.Aside && !v.CometDown && !v.CatchingUp && v.Height >= c.pool.Tip().Height-1
}
