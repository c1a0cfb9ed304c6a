package rpc

import (
	"cmp"
	"context"
	"crypto/sha256"
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
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

// An asking is one call on its way to an answer.
type asking struct {
	*Handler
	m       *method
	a       arguments
	target  string          // what the node is asked by a URI that it may read otherwise; "" for none
	unread  json.RawMessage // what the node is asked with where it may read the parameters otherwise; nil for none
	heights blocks.Heights  // that the headers of the request name
	made    bool            // the answer is made of a value of the state
}

// An answered call is a member of an answer, with what is told of it.
type answered struct {
	member []byte
	answer *blocks.Result // nil: it did not come through the cache
	query  *blocks.Query
	tag    string // validator of the member; "" for none

	failure   error  // of a server in front of the node, whose error the member is; nil for none
	blameless bool   // an error of the node is the client's doing
	status    int    // of the node's own answer to a URI; 0 for none
	typ       string // of that
}

// plan is the query that a call comes to.
func (k *asking) plan() *blocks.Query {
	class, cost, pinned := k.m.class, k.m.cost, int64(0)
	a := k.a
	switch {
	case k.unread != nil || k.target != "":
		class = blocks.Never
	case k.m.name == abciQuery:
		path := unquoted(a.of(k.m, "path"))
		cost = k.o.State.CostOf(path, k.message())
		if class = k.classOf(path, k.message()); class == blocks.Live {
			pinned = number(a.of(k.m, "height"))
			if k.o.State.Tells(path) && a.of(k.m, "prove") == nil {
				return k.value(path, pinned)
			}
			a = a.with(k.m, "height", nil)
		} else if k.o.State.Finds(path, k.message()) && number(a.of(k.m, "height")) == 0 && a.of(k.m, "prove") == nil {
			return k.value(path, 0)
		}
	case class == blocks.Block && number(a.of(k.m, "height")) == 0:
		class = blocks.Latest
	}
	q := &blocks.Query{Kind: k.kinds[class], Cost: cost, Heights: k.pinned(pinned)}
	if class != blocks.Live {
		q.Pinned = 0
	}
	origin := &origin{asking: k, class: class, a: a}
	q.Origin, q.Key = origin, k.key(a)
	return q
}

// pinned are the heights that the request names, or the one that the parameters name.
func (k *asking) pinned(height int64) blocks.Heights {
	hs := k.heights
	hs.Pinned = cmp.Or(height, hs.Pinned)
	return hs
}

// key names the answers to a call; beyond 512 bytes of parameters by a digest of them.
func (k *asking) key(a arguments) string {
	said := string(k.m.object(a))
	if len(said) > 512 {
		sum := sha256.Sum256([]byte(said))
		said = hex.EncodeToString(sum[:])
	}
	return k.m.path() + "?" + strings.ReplaceAll(said, "@", `\u0040`)
}

// number is an integer among the parameters, 0 for none.
func number(value json.RawMessage) int64 {
	if value == nil {
		return 0
	}
	n, _ := strconv.ParseInt(unquoted(value), 10, 64)
	return n
}

// answer answers a call by a tip, that of the whole request.
func (k *asking) answer(ctx context.Context, from *http.Request, rec *record.Record, q *blocks.Query, tip node.Tip) (answered, error) {
	if q.Kind.Class == blocks.Never {
		return k.pass(ctx, rec, q)
	}
	lookup := k.reader.Lookup
	if k.made {
		lookup = k.values.Lookup
	}
	a, err := lookup(ctx, from, rec, q, tip)
	if err != nil {
		return passError(err)
	}
	p := answered{member: a.Entry.Body, answer: &a, query: q, tag: a.Entry.ETag}
	if k.made {
		height := k.values.Height(q, &a)
		if p.tag = state.ETag(a.Entry, height); a.Entry.Type == node.MessageType {
			p.member = state.AppendValue(nil, a.Entry.Body, height)
		}
	}
	return p, nil
}

// passError returns the answer that has the error of a server in front of the node, or the error of a call without one.
func passError(err error) (answered, error) {
	if said := upstream.SaidBy(err, upstream.RPC); said != nil {
		return answered{member: jsonrpc.PassedError(said.Code, said.Text), failure: err}, nil
	}
	return answered{}, err
}

// advise tells the client when to try again what a server in front of the node has refused, and the log about it.
func advise(h http.Header, rec *record.Record, all ...answered) {
	for _, one := range all {
		if one.failure != nil {
			failure.Of(one.failure).SetAdvice(h)
			rec.Err = one.failure
		}
	}
}

// pass asks the node what is never kept.
func (k *asking) pass(ctx context.Context, rec *record.Record, q *blocks.Query) (answered, error) {
	client := rec.Client.Name()
	if k.m.write || k.m.name == abciQuery && state.Simulates(unquoted(k.a.of(k.m, "path"))) { // what is posted, or simulated
		if err := k.o.Posting.Acquire(ctx, client); err != nil {
			return answered{}, err
		}
	}
	if waiters := k.waiters(); waiters != nil {
		leave, err := waiters.Enter(&rec.Client, time.Second)
		if err != nil {
			return answered{}, err
		}
		defer leave()
	}
	r := node.Request{Height: cmp.Or(q.Pinned, node.AtTip), Unpinned: q.Pinned == 0, Cost: q.Cost, Client: client}
	a, err := q.Origin.Fetch(ctx, r, nil)
	if err != nil && k.m.cost == node.Unknown {
		err = failure.OfUnknown(err)
	}
	if err != nil {
		return passError(err)
	}
	p := answered{member: a.Body, blameless: a.Reason != node.Other}
	if k.target != "" {
		p.status, p.typ = a.NodeStatus, a.Type
	}
	return p, nil
}

// waiters are the calls among which one counts that may take long; nil for none.
func (k *asking) waiters() *limits.Places {
	switch {
	case k.m.slow:
		return k.slow
	case k.m.cost == node.Unknown:
		return k.passed
	}
	return nil
}

// A store gives the value of a key. What abci_query takes besides that and package state's methods
// ignores the height, and some of it repeats the height that it was asked for.
var storePath = regexp.MustCompile(`^/store/[A-Za-z0-9_-]+/key$`)

// classOf says what may be kept of the answers to a path of abci_query.
func (d *Handler) classOf(path string, message []byte) blocks.Class {
	switch {
	case d.o.State.Tells(path), storePath.MatchString(path):
		return blocks.Live
	case d.o.State.Finds(path, message):
		return blocks.Found
	default:
		return blocks.Never
	}
}

// value is the query for a value of the state, which the parameters ask for at a height, 0 for
// none.
func (k *asking) value(path string, height int64) *blocks.Query {
	k.made = true
	return k.values.Query(state.Request{Method: path, Message: k.message()}, k.pinned(height))
}

// message is what a path is asked with.
func (k *asking) message() []byte {
	message, _ := hex.DecodeString(unquoted(k.a.of(k.m, "data"))) // it was read
	return message
}
