package node

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"google.golang.org/grpc/metadata"

	"github.com/tipcache/tipcache/upstream"
)

// A node at block 100 states each height in its answers by REST, RPC and gRPC.
func TestImpossibleHeightsOfAnswersAreRejected(t *testing.T) {
	t.Parallel()
	const most = "9223372036854775807"
	g := startGRPC(t, "127.0.0.1:0", "story-1")
	n := newFakeNode(t, 100)
	n.grpc = g.address
	p := run(t, Options{Dialect: Cosmos, BlockInterval: time.Minute}, n)
	wantTip(t, p, 100)
	waitForGRPC(t, p, 0, "ok")
	state := func(header, trailer metadata.MD, height string) {
		g.change(func() { g.header, g.trailer = header, trailer })
		n.change(func() {
			n.rest = func(w http.ResponseWriter, r *http.Request) {
				if r.Method == http.MethodPost {
					fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":{"response":{"code":0,"value":"","height":%q}}}`, height)
					return
				}
				w.Header().Set(metadataHeader, height)
				_, _ = w.Write([]byte(`{}`))
			}
		})
	}
	query := &Call{Method: queryMethod, Params: func(int64) json.RawMessage { return json.RawMessage(`{}`) }}
	for name, r := range map[string]Request{
		"REST": {Path: "/x"}, "RPC": {Call: query}, "gRPC headers": {Invoke: &Invocation{Method: aMethod}}, "gRPC trailers": {Invoke: &Invocation{Method: aMethod}},
	} {
		r.Height = AtTip
		pinned, unpinned := r, r
		unpinned.Unpinned = true
		for _, c := range []struct {
			stated           string
			pinned, unpinned int64 // heights of the answers; invalidHeight for an error
		}{
			{"100", 100, 100}, {"", 100, 0}, {"101", invalidHeight, 101}, {"99", invalidHeight, 99},
			{"-1", invalidHeight, invalidHeight}, {"100", 100, 100}, {most, invalidHeight, invalidHeight}, {"100", 100, 100}, {"9223372036854775808", invalidHeight, invalidHeight}, {"1000000", invalidHeight, 0},
		} {
			md := metadata.Pairs(heightKey, c.stated)
			if name == "gRPC trailers" {
				state(nil, md, c.stated)
			} else {
				state(md, nil, c.stated)
			}
			for want, r := range map[*int64]Request{&c.pinned: pinned, &c.unpinned: unpinned} {
				a, err := p.Fetch(within(t, time.Minute), r)
				switch {
				case *want != invalidHeight && (err != nil || a.Height != *want):
					t.Errorf("%s, unpinned %t: Fetch with stated height %q = %+v, %v; want height %d", name, r.Unpinned, c.stated, a, err, *want)
				case *want == invalidHeight && upstream.KindOf(err) != upstream.BadAnswer:
					t.Errorf("%s, unpinned %t: Fetch with stated height %q = %+v, %v; want a bad answer", name, r.Unpinned, c.stated, a, err)
				}
			}
		}
	}
	state(metadata.Pairs(heightKey, "100", heightKey, "99"), nil, "100")
	if a, err := invoke(t, p, aMethod, AtTip); upstream.KindOf(err) != upstream.BadAnswer {
		t.Errorf("Fetch with two stated heights = %+v, %v; want a bad answer", a, err)
	}
}

func TestReadResponseReturnsTheHeightThatTheResponseNames(t *testing.T) {
	t.Parallel()
	const envelope, document = `{"code":200,"msg":{},"error":""}`, `{"params":{}}`
	for name, tt := range map[string]struct {
		dialect Dialect
		status  int
		body    string
		headers http.Header
		height  int64
		reason  Reason
		foreign bool
	}{
		"Story node":                 {dialect: Story, status: 200, body: envelope},
		"tipcache before Story":      {dialect: Story, status: 200, body: envelope, headers: http.Header{"X-Block-Height": {"7"}}, height: 7},
		"Story node without a path":  {dialect: Story, status: 404, body: noRoute, reason: NotFound},
		"SDK node":                   {dialect: Cosmos, status: 200, body: document, headers: http.Header{heightHeader: {"7"}, metadataHeader: {"7"}}, height: 7},
		"SDK node with two heights":  {dialect: Cosmos, status: 200, body: document, headers: http.Header{heightHeader: {"7"}, metadataHeader: {"8"}}, height: invalidHeight},
		"SDK node without the path":  {dialect: Cosmos, status: 501, body: `{"code":12,"message":"Not Implemented","details":[]}`, reason: BadInput},
		"error page before the node": {dialect: Cosmos, status: 502, body: "<html>", foreign: true},
		"unknown dialect":            {dialect: "other", status: 200, body: document, foreign: true},
	} {
		a, ok := tt.dialect.ReadResponse(&http.Response{StatusCode: tt.status, Header: tt.headers}, []byte(tt.body), 5)
		switch {
		case ok == tt.foreign:
			t.Errorf("%s: ok = %t, want %t", name, ok, !tt.foreign)
		case ok && (a.Height != tt.height || a.Reason != tt.reason):
			t.Errorf("%s: height = %d, reason = %v; want %d, %v", name, a.Height, a.Reason, tt.height, tt.reason)
		}
	}
}
