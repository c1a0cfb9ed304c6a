package cosmos

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// postNodes record posted bodies, and return one answer after another.
type postNodes struct {
	blocks.Nodes
	answers []*node.Answer // nil fails
	bodies  []string
	last    node.Request
}

func (p *postNodes) Tip() node.Tip { return atTip{}.Tip() }

func (p *postNodes) Fetch(_ context.Context, r node.Request) (*node.Answer, error) {
	p.bodies, p.last = append(p.bodies, string(r.Post.Body)), r
	a := p.answers[len(p.bodies)-1]
	if a == nil {
		return nil, errors.New("gone")
	}
	return a, nil
}

// servePost serves a POST of the body "tx" to a path.
func servePost(t *testing.T, nodes blocks.Nodes, path string, header http.Header) (*httptest.ResponseRecorder, error) {
	t.Helper()
	w := httptest.NewRecorder()
	r := web.NewHTTPRequest(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader("tx")))
	r.Header = header
	route, _ := handlerFor(t, nodes).Route(r)
	return w, route.Serve(r)
}

func TestPostIsRetriedOnlyIfItReadsState(t *testing.T) {
	starting := &node.Answer{NodeStatus: 500, Reason: node.Ambiguous, Body: []byte("starting")}
	done := &node.Answer{NodeStatus: 200, Height: 90, Type: respond.JSON, Body: []byte("done")}
	for name, tt := range map[string]struct {
		path    string
		answers []*node.Answer
		sent    int
		body    string
		fails   bool
	}{
		"a transaction":                                 {txs + "/txs", []*node.Answer{done}, 1, "done", false},
		"a transaction at a starting node":              {txs + "/txs", []*node.Answer{starting, done}, 1, "starting", false},
		"a simulation at a starting node":               {txs + "/simulate", []*node.Answer{starting, done}, 2, "done", false},
		"a simulation at a node that starts for longer": {txs + "/simulate", []*node.Answer{starting, starting, done}, 2, "starting", false},
		"a simulation without a node":                   {txs + "/simulate", []*node.Answer{nil, done}, 1, "", true},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := &postNodes{answers: tt.answers}
			w, err := servePost(t, nodes, tt.path, http.Header{})
			if (err != nil) != tt.fails || w.Body.String() != tt.body {
				t.Errorf("body = %q, error = %v; want %q, an error: %t", w.Body, err, tt.body, tt.fails)
			}
			expect.NoDiff(t, nodes.bodies, slices.Repeat([]string{"tx"}, tt.sent), "posted bodies")
		})
	}
}

func TestPostIsReadAtTheHeightThatItNames(t *testing.T) {
	const verify = "/ibc/core/client/v1/verify_membership"
	for name, tt := range map[string]struct {
		path, height string
		read         int64 // 0 sends nothing
		unpinned     bool
		status       int // of the failure, 0 for none
	}{
		"a read":                       {verify, "", node.AtTip, false, 0},
		"a read at a height":           {verify, "90", 90, false, 0},
		"a read at a malformed height": {verify, "x", 0, false, 400},
		"a simulation":                 {txs + "/simulate", "", node.AtTip, true, 0},
		"a simulation at a height":     {txs + "/simulate", "90", 90, false, 0},
		"a decoding at a height":       {txs + "/decode", "90", 90, false, 0},
		"an encoding at no height":     {txs + "/encode", "x", 0, false, 400},
		"a transaction":                {txs + "/txs", "x", node.AtTip, true, 0},
		"a form":                       {"form", "", 0, false, 501},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := &postNodes{answers: []*node.Answer{{NodeStatus: 200, Body: []byte("done")}}}
			header := http.Header{respond.HeightHeader: {tt.height}}
			if tt.path == "form" {
				tt.path = verify
				header.Set("Content-Type", "application/x-www-form-urlencoded")
			}
			_, err := servePost(t, nodes, tt.path, header)
			if nodes.last.Height != tt.read || nodes.last.Unpinned != tt.unpinned {
				t.Errorf("node request at height %d, unpinned: %t; want %d, %t", nodes.last.Height, nodes.last.Unpinned, tt.read, tt.unpinned)
			}
			if (err != nil) != (tt.status > 0) || err != nil && failure.Of(err).Status != tt.status {
				t.Errorf("error = %v, want status %d", err, tt.status)
			}
		})
	}
}

// arrivingNodes are nodes whose next block arrives once a request waits for it. The chain has replaced block 99.
type arrivingNodes struct {
	postNodes
	tip    int64
	answer int64 // height of the answer
}

func (n *arrivingNodes) Tip() node.Tip {
	return node.Tip{Known: true, Height: n.tip, Interval: 4 * time.Second}
}

func (n *arrivingNodes) WaitHeight(_ context.Context, height int64) error {
	n.tip = height
	return nil
}

func (n *arrivingNodes) HashOf(int64) string { return "" }

func (n *arrivingNodes) Replaced(height int64, _ string) bool { return height == 99 }

func (n *arrivingNodes) Fetch(ctx context.Context, r node.Request) (*node.Answer, error) {
	n.answers = []*node.Answer{{NodeStatus: 200, Height: cmp.Or(n.answer, n.tip), Body: []byte("done")}}
	return n.postNodes.Fetch(ctx, r)
}

func TestPostWaitsForRequiredBlock(t *testing.T) {
	const verify, simulate = "/ibc/core/client/v1/verify_membership", txs + "/simulate"
	for name, tt := range map[string]struct {
		path          string
		header, value string
		answer        int64 // height of the node's answer, 0 for the tip
		want          string
		status        int // of the failure, 0 for none
	}{
		"no block":                         {verify, "", "", 0, "100", 0},
		"a later block":                    {verify, respond.MinHeightHeader, "101", 0, "101", 0},
		"a session at a later block":       {verify, session.Header, "101", 0, "101", 0},
		"a block that was rolled back":     {verify, respond.MinHeightHeader, "100.aaaaaaaa", 0, "", http.StatusConflict},
		"a node without the block":         {verify, respond.MinHeightHeader, "101", 100, "", http.StatusGatewayTimeout},
		"an earlier block":                 {verify, respond.MinHeightHeader, "90", 100, "100", 0},
		"a simulation at a later block":    {simulate, respond.MinHeightHeader, "101", 0, "101", 0},
		"a simulation at an earlier block": {simulate, respond.MinHeightHeader, "90", 0, "100", 0},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := &arrivingNodes{tip: 100, answer: tt.answer}
			header := http.Header{}
			if tt.header != "" {
				header.Set(tt.header, tt.value)
			}
			w, err := servePost(t, nodes, tt.path, header)
			if (err != nil) != (tt.status > 0) || err != nil && failure.Of(err).Status != tt.status {
				t.Fatalf("error = %v, want status %d", err, tt.status)
			}
			expect.Equal(t, w.Header().Get(respond.HeightHeader), tt.want, "height of the response")
		})
	}
}

func TestResponseToPostHasHeightOfTheState(t *testing.T) {
	for name, tt := range map[string]struct {
		answer node.Answer
		want   string
		lines  int // of the node's headers
	}{
		"a value":             {node.Answer{NodeStatus: 200, Reason: node.OK, Height: 90}, "90", 2},
		"a value of no block": {node.Answer{NodeStatus: 200, Reason: node.OK}, "", 0},
		"a refusal":           {node.Answer{NodeStatus: 400, Reason: node.Refused, Height: 90}, "90", 0},
		"a pruned block":      {node.Answer{NodeStatus: 400, Reason: node.Pruned, Height: 90}, "", 0},
		"a future block":      {node.Answer{NodeStatus: 400, Reason: node.FutureHeight, Height: 90}, "", 0},
	} {
		w, err := servePost(t, &postNodes{answers: []*node.Answer{&tt.answer}}, txs+"/simulate", http.Header{})
		h := w.Header()
		if err != nil || w.Code != tt.answer.NodeStatus || h.Get(respond.HeightHeader) != tt.want || len(h[cosmosHeader])+len(h[metadataHeader]) != tt.lines {
			t.Errorf("%s: response = %d %v, %v; want height %q and %d header lines of the node", name, w.Code, h, err, tt.want, tt.lines)
		}
	}
}

func TestABCIQueryReadsOnlyKeysOfStores(t *testing.T) {
	for query, want := range map[string]int{ // 0 reads the node
		"path=/store/acc/key&data=AQ==&prove=true":        0,
		"path=store/acc/key":                              0,
		"path=/store/gov/key":                             http.StatusForbidden,
		"path=/app/simulate":                              http.StatusBadRequest,
		"path=/store/bank/subspace":                       http.StatusBadRequest,
		"path=/store/acc/key&path=/app/simulate&height=x": http.StatusBadRequest, // a query that the node may refuse
		"path=/store/acc/key&path[x]=/app/simulate":       http.StatusBadRequest,
		"": http.StatusBadRequest,
	} {
		nodes := &countingNode{status: http.StatusOK}
		h := handlerFor(t, nodes)
		h.Reader.Stack.SetLimits(limits.Limits{Access: []limits.Rule{limits.NewDeny("store/gov/*")}})
		r := web.NewHTTPRequest(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodGet, comet+"/abci_query?"+query, nil))
		route, _ := h.Route(r)
		err := route.Serve(r)
		if (err != nil) != (want > 0) || err != nil && failure.Of(err).Status != want {
			t.Errorf("error of %s = %v, want status %d", query, err, want)
		}
		expect.Equal(t, nodes.reads > 0, want == 0, "whether %s reads the node", query)
	}
}

func TestFailedPostIsReadFromAnotherNodeOnlyIfItReadsState(t *testing.T) {
	for path, want := range map[string]bool{"/ibc/core/client/v1/verify_membership": false, txs + "/simulate": true, txs + "/txs": true} {
		nodes := &postNodes{answers: []*node.Answer{{NodeStatus: 200, Body: []byte("done")}}}
		_, err := servePost(t, nodes, path, http.Header{cosmosHeader: {"90"}})
		expect.NoError(t, err)
		expect.Equal(t, nodes.last.OneNode, want, "OneNode of %s", path)
		expect.Equal(t, nodes.last.Post.Reads, path != txs+"/txs", "Reads of %s", path)
	}
}

// silentNodes give no reply to a request that they may have executed.
type silentNodes struct {
	atTip
	mayHaveRun bool
}

func (n silentNodes) Fetch(context.Context, node.Request) (*node.Answer, error) {
	return nil, &upstream.Error{Kind: upstream.Unreachable, Msg: "the chain node cannot be reached", MayHaveRun: n.mayHaveRun}
}

func TestBroadcastWithoutReplyGetsItsHash(t *testing.T) {
	const (
		hash    = "/cosmos/tx/v1beta1/txs/01BA4719C80B6FE911B091A7C05124B64EEECE964E09C058EF8F9805DACA546B?wait=20s" // of 0a
		unknown = `{"code":2,"message":"the chain node did not answer, so it is not known whether it has the transaction`
	)
	for name, tt := range map[string]struct {
		body       string
		mayHaveRun bool
		status     int
		parts      []string
	}{
		"sent":               {`{"tx_bytes":"Cg==","mode":"BROADCAST_MODE_SYNC"}`, true, 504, []string{unknown, hash}},
		"sent, in camels":    {`{"txBytes":"Cg=="}`, true, 504, []string{unknown, hash}},
		"sent, not base64":   {`{"tx_bytes":"?"}`, true, 504, []string{unknown + `"`}},
		"sent, without JSON": {`x`, true, 504, []string{unknown + `"`}},
		"not sent":           {`{"tx_bytes":"Cg=="}`, false, 502, []string{`{"code":14,"message":"the chain node cannot be reached"`}},
	} {
		r := web.NewHTTPRequest(httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), http.MethodPost, txs+"/txs", strings.NewReader(tt.body)))
		r.Record.Start = time.Now()
		route, _ := handlerFor(t, silentNodes{mayHaveRun: tt.mayHaveRun}).Route(r)
		f := failure.Of(route.Serve(r))
		status, _, body := route.Render(r, http.Header{}, f)
		expect.Response(t, name, status, string(body), tt.status, tt.parts...)
	}
}
