package rpc

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

// call is a call that needs a node. It implements [blocks.Source].
type call struct {
	d         *Handler
	m         *method
	a         arguments
	target    string          // request target of a URI that the node may parse differently, sent as it is; "" for none
	rawParams json.RawMessage // parameters that the node may parse differently, sent as they are; nil for none
	heights   web.Heights     // from the headers of the request
	fromState bool            // the member is composed of a value of the state

	class blocks.Class // set by the first makeQuery
	sent  arguments    // set by the first makeQuery: the arguments a, but without the height if the call reads state
}

// pendingCall is a call being answered.
type pendingCall struct {
	call *call    // nil if no node is needed
	wait []string // values of the parameter wait; nil for none

	query  *blocks.Read
	answer *blocks.Result // nil if it did not come through the cache
	member []byte         // member of the response that answers the call
	tag    string         // ETag of the member; "" for none
	err    error          // why there is no member

	failure   error  // cause of the error in the member, for the log; nil for none
	blameless bool   // the member is an error that the client caused
	status    int    // status of the node's response to a URI; 0 for none
	typ       string // media type of that response
}

// makeQuery returns the query of the call. All queries of a call are equal.
func (k *call) makeQuery() *blocks.Read {
	class, cost, a, hs := k.m.class, k.m.cost, k.a, k.heights
	switch {
	case k.isRaw():
		if class = blocks.Never; k.m.name == abciQuery {
			cost = node.Unknown // it may be a scan
		}
	case k.m.name == abciQuery:
		o, path, message := k.d.o.State, unquoted(a.get(k.m, "path")), k.message()
		height := number(a.get(k.m, "height"))
		cost, hs.Pinned = o.CostOf(path, message), cmp.Or(height, hs.Pinned) // a height among the parameters takes precedence
		readsState, withoutProof := o.ReadsState(path), a.get(k.m, "prove") == nil
		switch {
		case withoutProof && (readsState || height == 0 && o.IsFixed(path, message)):
			k.fromState = true
			return k.d.values.Read(state.Request{Method: path, Message: message}, hs)
		case readsState || storePath.MatchString(path):
			a = a.with(k.m, "height", nil)
		case o.IsFixed(path, message):
			class = blocks.Found
		default:
			class = blocks.Never
		}
	case class == blocks.Block && number(a.get(k.m, "height")) == 0:
		class = blocks.Latest
	}
	if class != blocks.Live {
		hs.Pinned = 0
	}
	if k.class == "" { // else the read of an equal query may be in progress
		k.class, k.sent = class, a
	}
	text := string(k.m.object(a))
	ask := node.Request{Cost: cost, OneNode: k.posts(), Call: &node.Call{
		Method: k.m.name, Params: k.params, Target: k.target, Write: k.m.write, Slow: k.m.slow, Block: number(a.get(k.m, "height")),
	}}
	return &blocks.Read{Key: k.key(text), Size: len(text), Kind: k.d.kinds[class], Source: k, Ask: ask, Heights: hs}
}

// posts reports whether the call has a transaction to broadcast, simulate, encode or decode, or may have one.
func (k *call) posts() bool {
	return k.m.write || k.m.name == abciQuery && (k.isRaw() || state.Posts(unquoted(k.a.get(k.m, "path"))))
}

// isRaw reports whether only the node can read the parameters.
func (k *call) isRaw() bool { return k.rawParams != nil || k.target != "" }

// key returns the cache key of the answers to a call with these parameters. Longer ones than 512 bytes are replaced by their
// digest.
func (k *call) key(text string) string {
	if len(text) > 512 {
		sum := sha256.Sum256([]byte(text))
		text = hex.EncodeToString(sum[:])
	}
	return k.m.path() + "?" + strings.ReplaceAll(text, "@", `\u0040`)
}

func number(value json.RawMessage) int64 {
	if value == nil {
		return 0
	}
	n, _ := strconv.ParseInt(unquoted(value), 10, 64)
	return n
}

// answerAt answers a call at the tip chosen for the whole request.
func (k *pendingCall) answerAt(ctx context.Context, from *web.Request, tip node.Tip) error {
	if k.query.Kind.Class == blocks.Never {
		return k.forward(ctx, from)
	}
	lookup := k.call.d.reader.Lookup
	if k.call.fromState {
		lookup = k.call.d.values.Lookup
	}
	a, err := lookup(ctx, from, k.query, tip)
	if err != nil {
		return k.passError(err)
	}
	k.member, k.answer, k.tag = a.Entry.Body, &a, a.Entry.ETag
	if k.call.fromState {
		height := k.call.d.values.Height(k.query, &a)
		if k.tag = state.ETag(a.Entry, height); a.Entry.Type == node.MessageType {
			k.member = state.AppendValue(nil, a.Entry.Body, height)
		}
	}
	return nil
}

// passError answers with the error of a server in front of the node, or with that of a broadcast that may have succeeded, because
// clients do not read answers with other statuses than 200. It returns any other error.
func (k *pendingCall) passError(err error) error {
	said := upstream.SaidBy(err, upstream.RPC)
	switch {
	case k.call.m.broadcasts() && upstream.MayHaveRun(err):
		k.member = memberOf(failure.Of(err))
	case said != nil:
		k.member = jsonrpc.PassedError(said.Code, said.Text, said.Data)
	default:
		return err
	}
	k.failure = err
	return nil
}

// dropAnswer drops the answer, because err says that there is no memory for it, and returns the error of the call. A broadcast is
// answered as one that may have succeeded.
func (k *pendingCall) dropAnswer(err error) error {
	k.member, k.answer = nil, nil
	if k.call == nil || !k.call.m.broadcasts() {
		return err
	}
	lost := &upstream.Error{Kind: upstream.Overloaded, Msg: "no memory for the answer to a broadcast", Err: err, MayHaveRun: true}
	return k.passError(blocks.OfBroadcast(lost, k.call.transaction(), askForTx))
}

// askForTx is the request for a transaction with the hash %X.
const askForTx = "tx?hash=0x%X&wait=20s"

// transaction returns the transaction of a broadcast; nil if only the node can read the parameters.
func (k *call) transaction() []byte {
	tx, err := base64.StdEncoding.DecodeString(unquoted(k.a.get(k.m, "tx")))
	if err != nil || k.isRaw() {
		return nil
	}
	return tx
}

// recordFailures sets Retry-After and records the failures of calls, whose response has the status 200.
func recordFailures(r *web.Request, all ...*pendingCall) {
	for _, one := range all {
		if one.failure != nil {
			f := failure.Of(one.failure)
			f.SetAdvice(r.ResponseHeader)
			r.Record.Err, r.Record.Failed = one.failure, r.Record.Failed || f.Status >= http.StatusInternalServerError
		}
	}
}

// forward sends a call that is never cached to a node.
func (k *pendingCall) forward(ctx context.Context, from *web.Request) error {
	client := from.Record.Client.Name()
	if k.call.posts() {
		if err := k.call.d.o.Posting.Acquire(ctx, client); err != nil {
			return err
		}
	}
	if waiters := k.call.waiters(); waiters != nil {
		leave, err := waiters.Enter(&from.Record.Client, time.Second)
		if err != nil {
			return err
		}
		defer leave()
	}
	q := k.query
	ask := q.Ask
	ask.Height, ask.Unpinned, ask.Client = cmp.Or(q.Pinned, node.AtTip), q.Pinned == 0, client
	a, err := q.Source.Ask(ctx, q, ask, nil)
	if err == nil && !k.call.m.write && number(k.call.a.get(k.call.m, "height")) == 0 {
		err = k.call.d.reader.CheckHeight(a.Height, q.Min)
	}
	switch {
	case err != nil && ask.Cost == node.Unknown:
		err = failure.OfUnknown(err)
	case err != nil && k.call.m.broadcasts():
		err = blocks.OfBroadcast(err, k.call.transaction(), askForTx)
	}
	if err != nil {
		return k.passError(err)
	}
	if k.member, k.blameless = a.Body, a.Reason != node.Other; k.call.target != "" {
		k.status, k.typ = a.NodeStatus, a.Type
	}
	return nil
}

// waiters returns the semaphore that limits calls of this kind, which may take long; nil for none.
func (k *call) waiters() *limits.Places {
	switch {
	case k.m.slow:
		return k.d.slow
	case k.m.cost == node.Unknown:
		return k.d.passed
	}
	return nil
}

// storePath matches reads of one key of a store. Other paths of abci_query, except those of package state, ignore
// the height, and some repeat the requested height in their answer.
var storePath = regexp.MustCompile(`^/store/[A-Za-z0-9_-]+/key$`)

func (k *call) message() []byte {
	message, _ := hex.DecodeString(unquoted(k.a.get(k.m, "data"))) // validated when it was parsed
	return message
}
