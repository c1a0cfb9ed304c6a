package state_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/ahead"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// nodes answer by gRPC and by the RPC with the results of the functions.
type nodes struct {
	blocks.Nodes
	byGRPC, byRPC func() (*node.Answer, error)
	requests      []string // parameters of abci_query, or "gRPC"
}

func (n *nodes) ChainID() string                     { return "test-1" }
func (n *nodes) Expected(node.Request) time.Duration { return 0 }
func (n *nodes) Replaced(int64, string) bool         { return false }
func (n *nodes) HashOf(int64) string                 { return "" }
func (n *nodes) Tip() node.Tip {
	return node.Tip{Known: true, Height: 100, Interval: 2 * time.Second, Since: time.Now()}
}
func (n *nodes) Fetch(_ context.Context, r node.Request) (*node.Answer, error) {
	if r.Invoke != nil {
		n.requests = append(n.requests, "gRPC")
		return n.byGRPC()
	}
	n.requests = append(n.requests, string(r.Call.Params(7)))
	return n.byRPC()
}

const (
	method = "/a.Query/B"
	viaRPC = `{"path":"/a.Query/B","data":"0AFF","height":"7"}`
)

// values returns the values of an API in front of nodes, and a function that reads one of them.
func values(t *testing.T, n *nodes, o state.Options, by state.Transport) (v *state.Values, lookup func() (blocks.Result, error)) {
	t.Helper()
	c := expect.Value(cache.New(cache.Options{}))(t)
	t.Cleanup(func() { c.Close() })
	reader := expect.Value(blocks.New(blocks.Options{Nodes: n}, web.New(web.Options{}, c), c))(t)
	kind, found := reader.Add(&blocks.Kind{Name: "state", Class: blocks.Live}), reader.Add(&blocks.Kind{Name: "found", Class: blocks.Found})
	v = state.New(o, reader, kind, found, by)
	return v, func() (blocks.Result, error) {
		r := web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		q := v.Read(state.Request{Method: method, Message: []byte{0x0a, 0xff}}, web.Heights{})
		return v.Lookup(t.Context(), r, q, n.Tip())
	}
}

func answers(reason node.Reason, typ, body string) func() (*node.Answer, error) {
	return func() (*node.Answer, error) {
		return &node.Answer{Reason: reason, Height: 100, Type: typ, Body: []byte(body)}, nil
	}
}

func fails(err error) func() (*node.Answer, error) {
	return func() (*node.Answer, error) { return nil, err }
}

func TestValueIsReadByTheTransportThatAnswers(t *testing.T) {
	value := string(state.AppendValue(nil, []byte("v"), 100))
	const refusal = `"result":{"response":{"code":18}}`
	var (
		byGRPC, byRPC = answers(node.OK, node.MessageType, "v"), answers(node.OK, "", value)
		refused       = answers(node.Refused, node.StatusType, "no")
		refusedByRPC  = answers(node.Refused, "", refusal)
		down          = &upstream.Error{Kind: upstream.Unreachable}
		busy          = &upstream.Error{Kind: upstream.Overloaded}
		late          = &upstream.Error{Kind: upstream.Timeout}
	)
	for name, tt := range map[string]struct {
		byGRPC, byRPC func() (*node.Answer, error)
		o             state.Options
		by            state.Transport
		requests      []string
		status        int
		typ, body     string
		err           error
	}{
		"by gRPC":                                  {byGRPC, byRPC, state.Options{GRPC: true}, state.RPC, []string{"gRPC"}, 200, node.MessageType, "v", nil},
		"by the RPC alone":                         {byGRPC, byRPC, state.Options{}, state.GRPC, []string{viaRPC}, 200, node.MessageType, "v", nil},
		"by the RPC if gRPC is down":               {fails(down), byRPC, state.Options{GRPC: true}, state.GRPC, []string{"gRPC", viaRPC}, 200, node.MessageType, "v", nil},
		"by the RPC if gRPC fails":                 {answers(node.Other, node.StatusType, "x"), byRPC, state.Options{GRPC: true}, state.GRPC, []string{"gRPC", viaRPC}, 200, node.MessageType, "v", nil},
		"as a failure if both fail":                {answers(node.Other, node.StatusType, "x"), fails(down), state.Options{GRPC: true}, state.GRPC, []string{"gRPC", viaRPC}, 502, node.StatusType, "x", nil},
		"not at all if both are down":              {fails(late), fails(down), state.Options{GRPC: true}, state.GRPC, []string{"gRPC", viaRPC}, 0, "", "", late},
		"not at all if the node is overloaded":     {fails(busy), byRPC, state.Options{GRPC: true}, state.GRPC, []string{"gRPC"}, 0, "", "", busy},
		"not at all if the nodes are behind":       {fails(upstream.ErrBehind), byRPC, state.Options{GRPC: true}, state.GRPC, []string{"gRPC"}, 0, "", "", upstream.ErrBehind},
		"with gRPC's refusal for gRPC":             {refused, refusedByRPC, state.Options{GRPC: true}, state.GRPC, []string{"gRPC"}, 404, node.StatusType, "no", nil},
		"with the RPC's refusal for the RPC":       {refused, refusedByRPC, state.Options{GRPC: true}, state.RPC, []string{"gRPC", viaRPC}, 404, "application/json", refusal, nil},
		"not with gRPC's refusal for the RPC":      {refused, fails(down), state.Options{GRPC: true}, state.RPC, []string{"gRPC", viaRPC, "gRPC"}, 0, "", "", &upstream.Error{Kind: upstream.Unreachable}},
		"with the RPC's refusal without gRPC":      {refused, refusedByRPC, state.Options{}, state.GRPC, []string{viaRPC}, 404, "application/json", refusal, nil},
		"unchanged if it is not in canonical form": {byGRPC, answers(node.OK, "", strings.Replace(value, "100", "0100", 1)), state.Options{}, state.RPC, []string{viaRPC}, 200, "application/json", strings.Replace(value, "100", "0100", 1), nil},
	} {
		n := &nodes{byGRPC: tt.byGRPC, byRPC: tt.byRPC}
		v, lookup := values(t, n, tt.o, tt.by)
		a, err := lookup()
		expect.NoDiff(t, n.requests, tt.requests, "%s: order of requests", name)
		switch {
		case tt.err != nil:
			if !errors.Is(err, tt.err) && (upstream.KindOf(err) != upstream.KindOf(tt.err) || upstream.KindOf(err) == 0) {
				t.Errorf("%s: error = %v, want %v", name, err, tt.err)
			}
		case err != nil || a.Entry.Status != tt.status || a.Entry.Type != tt.typ || string(a.Entry.Body) != tt.body || a.Entry.Failed != (tt.status == 502):
			t.Errorf("%s: entry = %+v, %v, want %d %s %s", name, a.Entry, err, tt.status, tt.typ, tt.body)
		case !v.CanServe(a.Entry):
			t.Errorf("%s: CanServe = false, want true", name)
		case tt.typ == node.MessageType && state.ETag(a.Entry, 7) != strings.TrimSuffix(a.Entry.ETag, `"`)+`-7"`, tt.typ != node.MessageType && state.ETag(a.Entry, 7) != a.Entry.ETag:
			t.Errorf("%s: ETag at block 7 = %s, want %s with the block for a value only", name, state.ETag(a.Entry, 7), a.Entry.ETag)
		}
	}
}

func TestNameOfAMethodIsEscaped(t *testing.T) {
	n := &nodes{byRPC: answers(node.OK, "", "")}
	v, _ := values(t, n, state.Options{}, state.RPC)
	const name = `/a/b"},"method":"net_info","params":{"x":"`
	_, _ = v.ReadNode(t.Context(), node.Request{}, state.Request{Method: name}, state.RPC)
	var params map[string]string
	if err := json.Unmarshal([]byte(n.requests[0]), &params); err != nil || params["path"] != name {
		t.Errorf("parameters = %s (%v), want a path of %q", n.requests[0], err, name)
	}
}

func TestSimulationFallsBackOnlyIfNothingRan(t *testing.T) {
	const simulate = "/cosmos.tx.v1beta1.Service/Simulate"
	for kind, want := range map[upstream.Kind]int{upstream.Unreachable: 2, upstream.Timeout: 1} {
		n := &nodes{byGRPC: fails(&upstream.Error{Kind: kind}), byRPC: answers(node.OK, "", "")}
		v, _ := values(t, n, state.Options{GRPC: true}, state.GRPC)
		_, _ = v.ReadNode(t.Context(), node.Request{}, state.Request{Method: simulate}, state.GRPC)
		expect.Equal(t, len(n.requests), want, "requests for a simulation whose first one fails with kind %v", kind)
	}
}

func TestErrorIsReadAgainByTheTransportOfTheAPI(t *testing.T) {
	n := &nodes{byGRPC: answers(node.Other, node.StatusType, "x"), byRPC: answers(node.Other, "", `"error":{}`)}
	_, lookup := values(t, n, state.Options{GRPC: true}, state.RPC)
	expect.Value(lookup())(t)
	expect.NoDiff(t, n.requests, []string{"gRPC", viaRPC, viaRPC, "gRPC"}, "order of requests")
}

func TestAnswersExpireByTheirReason(t *testing.T) {
	now := time.Now()
	for reason, want := range map[node.Reason]struct {
		lifetime time.Duration
		status   int
	}{
		node.OK: {0, 200}, node.Refused: {0, 404}, node.FutureHeight: {time.Second, 404}, node.Other: {blocks.BrokenLife, 502},
		node.NotFound: {8 * time.Second, 404}, node.BadInput: {8 * time.Second, 400}, node.Pruned: {3 * time.Second, 404},
	} {
		expires, at := blocks.Expiry(&node.Answer{Reason: reason}, now, node.Tip{Interval: 4 * time.Second}, 3*time.Second), time.Time{}
		if want.lifetime > 0 {
			at = now.Add(want.lifetime)
		}
		if !expires.Equal(at) || state.StatusOf(&node.Answer{Reason: reason}) != want.status {
			t.Errorf("%s: expires after %s with status %d, want %s, %d", reason, expires.Sub(now), state.StatusOf(&node.Answer{Reason: reason}), want.lifetime, want.status)
		}
	}
	panicked := blocks.Expiry(&node.Answer{Reason: node.Refused, Brief: true}, now, node.Tip{Interval: 4 * time.Second}, 3*time.Second)
	expect.Equal(t, panicked.Sub(now), 3*time.Second, "lifetime of an internal error")
}

func TestQueryOfFixedAnswerHasNoHeight(t *testing.T) {
	const tx = "/cosmos.tx.v1beta1.Service/GetTx"
	v, _ := values(t, &nodes{}, state.Options{Rows: map[string]dialect.Row{tx: {Class: blocks.Found}}}, state.RPC)
	for name, want := range map[string]struct{ pinned, height int64 }{tx: {0, 100}, method: {7, 7}} {
		q := v.Read(state.Request{Method: name, Message: []byte("a")}, web.Heights{Pinned: 7})
		a := &blocks.Result{Result: cache.Result{Entry: &cache.Entry{Height: 7}}, Tip: node.Tip{Height: 100}}
		if q.Pinned != want.pinned || v.Height(q, a) != want.height || q.Key != "state"+name+"?61" {
			t.Errorf("query of %s = %s at %d with height %d, want %d, %d", name, q.Key, q.Pinned, v.Height(q, a), want.pinned, want.height)
		}
	}
	failed := expect.Value(v.Entry(v.Read(state.Request{Method: tx}, web.Heights{}), &node.Answer{Reason: node.Other, Type: node.StatusType}, nil))(t)
	expect.Equal(t, failed.Expires.Sub(failed.ReadAt), blocks.BrokenLife, "lifetime of a failure")
	empty := expect.Value(v.Entry(v.Read(state.Request{Method: tx}, web.Heights{}), &node.Answer{Type: node.MessageType}, nil))(t)
	if empty.Status != http.StatusNotFound || empty.Expires.IsZero() {
		t.Errorf("entry of an empty message = %d until %v, want one that is not kept, because it has no transaction", empty.Status, empty.Expires)
	}
	long := v.Read(state.Request{Method: method, Message: make([]byte, 257)}, web.Heights{}).Key
	if most := v.Read(state.Request{Method: method, Message: make([]byte, 256)}, web.Heights{}).Key; len(most) != len("state/a.Query/B?")+512 || !strings.HasPrefix(long, "state/a.Query/B?sha256:") {
		t.Errorf("keys of messages with 256 and 257 bytes = %s, %s; want the message in hex, and its hash", most, long)
	}
	for name, want := range map[string]cache.Selection{"": {Prefix: "state"}, method: {Prefix: "state", Path: "*/a.Query/B"}} {
		expect.Equal(t, state.Select(name), want, "Select(%q)", name)
	}
	expect.Equal(t, state.SelectNaming("ab"), (cache.Selection{Prefix: "state", Contains: "6162"}), "SelectNaming")
}

// The cache keeps the requests that it reads ahead, without reserving memory for them.
func TestLongRequestsAreNotReadAhead(t *testing.T) {
	for size, want := range map[int]bool{100: true, 2 << 10: true, 2<<10 + 1: false} {
		height := int64(100)
		n := &nodes{byGRPC: func() (*node.Answer, error) {
			return &node.Answer{Height: height, Type: node.MessageType, Body: []byte("v")}, nil
		}}
		c := expect.Value(cache.New(cache.Options{}))(t)
		reader := expect.Value(blocks.New(blocks.Options{Nodes: n}, web.New(web.Options{}, c), c))(t)
		kind := reader.Add(&blocks.Kind{Name: "state", Class: blocks.Live})
		v := state.New(state.Options{GRPC: true}, reader, kind, kind, state.GRPC)
		q := v.Read(state.Request{Method: method, Message: make([]byte, size)}, web.Heights{})
		for ; height <= 101; height++ {
			c.ReadAhead(t.Context(), ahead.Block{Height: height})
			for range ahead.Often {
				tip := node.Tip{Known: true, Height: height, Interval: 2 * time.Second, Since: time.Now()}
				r := web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
				expect.Value(v.Lookup(t.Context(), r, q, tip))(t)
			}
		}
		expect.Equal(t, c.Inspect(t.Context(), cache.Query{Key: q.Key}, nil).Ahead, want, "whether a message of %d bytes is read ahead", size)
		expect.NoError(t, c.Close())
	}
}

// A read may outlast its client, whose memory for the request is released then.
func TestMemoryIsReservedWhileALongRequestIsRead(t *testing.T) {
	const size = 1 << 20
	c := expect.Value(cache.New(cache.Options{}))(t)
	defer c.Close()
	reads := 0
	n := &nodes{byGRPC: func() (*node.Answer, error) {
		if reads++; c.Account().Used() < size {
			t.Errorf("memory reserved during a read = %d, want at least %d", c.Account().Used(), size)
		}
		return &node.Answer{Height: 100, Type: node.MessageType, Body: []byte("v")}, nil
	}}
	reader := expect.Value(blocks.New(blocks.Options{Nodes: n}, web.New(web.Options{}, c), c))(t)
	kind := reader.Add(&blocks.Kind{Name: "state", Class: blocks.Live})
	v := state.New(state.Options{GRPC: true}, reader, kind, kind, state.GRPC)
	lookup := func(message []byte) error {
		q := v.Read(state.Request{Method: method, Message: message}, web.Heights{})
		r := web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		_, err := v.Lookup(t.Context(), r, q, n.Tip())
		return err
	}
	expect.NoError(t, lookup(make([]byte, size)))
	expect.Equal(t, c.Account().Used(), 0, "memory reserved after the read")
	if !c.Account().Reserve(account.Upstream, c.Account().Limit()-size/2) {
		t.Fatal("Reserve = false, want true")
	}
	expect.ErrorIs(t, lookup(make([]byte, size+1)), cache.ErrOverloaded, "Lookup without memory")
	expect.Equal(t, reads, 1, "reads, one of which had memory")
}

func TestLongestRequestIsReadWithinTheShareOfItsClient(t *testing.T) {
	c := expect.Value(cache.New(cache.Options{MemoryBytes: 256 << 20}))(t)
	defer c.Close()
	stack := web.New(web.Options{}, c)
	n := &nodes{byGRPC: func() (*node.Answer, error) {
		return &node.Answer{Height: 100, Type: node.MessageType, Body: []byte("v")}, nil
	}}
	reader := expect.Value(blocks.New(blocks.Options{Nodes: n}, stack, c))(t)
	kind := reader.Add(&blocks.Kind{Name: "state", Class: blocks.Live})
	v := state.New(state.Options{GRPC: true}, reader, kind, kind, state.GRPC)
	lookup := func(message []byte) error {
		r := web.NewRequest(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		r.Record.Client = limits.Client{Address: netip.MustParseAddr("192.0.2.1")}
		held := stack.HoldBody(&r.Record.Client)
		defer held.Release()
		expect.NoError(t, held.Take(len(message)))
		q := v.Read(state.Request{Method: method, Message: message}, web.Heights{})
		_, err := v.Lookup(t.Context(), r, q, n.Tip())
		return err
	}
	expect.NoError(t, lookup(make([]byte, conn.LargestBody)))

	client := limits.Client{Address: netip.MustParseAddr("192.0.2.1")}
	release := expect.Value(stack.HoldRead(client.Name(), false, conn.LargestBody))(t)
	err := lookup(make([]byte, 4<<20))
	expect.ErrorIs(t, err, account.ErrShare, "Lookup beyond the share") // so that the cache reads for other callers of the flight
	expect.Equal(t, failure.Of(err).Status, http.StatusTooManyRequests, "status")
	release()
	expect.Equal(t, c.Account().Used(), 0, "memory reserved after the reads")
}
