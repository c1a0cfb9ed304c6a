package node

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/tipcache/tipcache/upstream"
)

// rpcServer returns a pool in front of a node that responds to every RPC call with a status and body.
func rpcServer(t *testing.T, status int, header http.Header, body string) *Pool {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, values := range header {
			w.Header()[name] = values
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return newPool(t, Options{Endpoints: []Endpoint{{REST: server.URL, Comet: server.URL + "/secret-key-123"}}})
}

func blockCall(target string) Request {
	return Request{Height: AtTip, Unpinned: true, Call: &Call{Method: "block", Target: target, Params: func(int64) json.RawMessage { return json.RawMessage(`{}`) }}}
}

func TestOnlyErrorsOfTheNodeAreAnswers(t *testing.T) {
	for name, tt := range map[string]struct {
		status int
		body   string
		own    bool   // the error comes from the node
		passed string // text of a gateway that is passed on, or ""
	}{
		"invalid params":               {200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32602,"message":"Invalid params","data":"x"}}`, true, ""},
		"a known internal error":       {200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error","data":"height must be greater than 0, but got 0"}}`, true, ""},
		"an unknown internal error":    {200, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"Internal error","data":"disk full"}}`, false, "Internal error, disk full"},
		"a rate limit without an id":   {200, `{"jsonrpc":"2.0","id":null,"error":{"code":-32005,"message":"rate limit exceeded"}}`, false, "rate limit exceeded"},
		"an own code with another id":  {200, `{"jsonrpc":"2.0","id":99999,"error":{"code":-32602,"message":"Invalid params"}}`, false, "Invalid params"},
		"a result with another id":     {200, `{"jsonrpc":"2.0","id":99999,"result":{}}`, false, ""},
		"a page in HTML":               {200, `<html>`, false, ""},
		"nothing":                      {200, ``, false, ""},
		"a text with 429":              {429, `Too Many Requests`, false, ""},
		"an error that has our key":    {200, `{"id":1,"error":{"code":7,"message":"no quota for secret-key-123"}}`, false, "no quota for ***"},
		"an error with a long message": {200, `{"id":1,"error":{"code":7,"message":"` + strings.Repeat("é", 200) + `"}}`, false, strings.Repeat("é", 128)},
	} {
		t.Run(name, func(t *testing.T) {
			p := rpcServer(t, tt.status, http.Header{"Retry-After": {"7"}}, tt.body)
			e := p.endpoints()[0]
			a, err := e.call(t.Context(), blockCall(""), 100)
			if tt.own {
				if err != nil || a.Reason != BadInput {
					t.Errorf("call = %+v, %v; want a bad input", a, err)
				}
				return
			}
			if got := wantKind(t, err, upstream.BadAnswer); got.RetryAfter != 7*time.Second {
				t.Errorf("RetryAfter = %v, want 7s", got.RetryAfter)
			}
			passed := upstream.SaidBy(err, upstream.RPC)
			if (passed != nil) != (tt.passed != "") || passed != nil && strings.TrimSuffix(passed.Text+", "+passed.Data, ", ") != tt.passed {
				t.Errorf("error passed on = %+v, want %q", passed, tt.passed)
			}
		})
	}
}

func TestGatewayErrorsForURIsAreFailures(t *testing.T) {
	for body, own := range map[string]bool{
		`{"jsonrpc":"2.0","id":-1,"error":{"code":-32602,"message":"Invalid params","data":"x"}}`: true,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32005,"message":"rate limit exceeded"}}`:     false,
		`<html>`: false,
	} {
		p := rpcServer(t, http.StatusInternalServerError, http.Header{"Content-Type": {"text/html"}}, body)
		a, err := p.endpoints()[0].call(t.Context(), blockCall("/block?height=abc"), 100)
		if err == nil != own {
			t.Errorf("call with response %s = %+v, %v; want success %t", body, a, err, own)
		}
		if own && a.Type != "application/json" { // browsers would render another type
			t.Errorf("type = %q, want application/json", a.Type)
		}
	}
}

func TestStatusesOfGatewaysAreFailures(t *testing.T) {
	t.Parallel()
	n := startGRPC(t, "127.0.0.1:0", "story-1")
	p := runGRPC(t, Options{}, n.address)
	waitForGRPC(t, p, 0, "ok")
	for code, reason := range map[codes.Code]Reason{
		codes.Unknown: Other, codes.Internal: Other, codes.InvalidArgument: BadInput, codes.Unimplemented: BadInput,
	} {
		n.refuse(code, "some text", false)
		if a, err := invoke(t, p, aMethod, AtTip); err != nil || a.Reason != reason {
			t.Errorf("call with status %v = %+v, %v; want %v", code, a, err, reason)
		}
	}
	for _, code := range []codes.Code{codes.ResourceExhausted, codes.Unavailable, codes.PermissionDenied, codes.Unauthenticated, codes.Aborted, codes.NotFound, codes.Canceled} {
		n.refuse(code, "rate limit exceeded", false)
		_, err := invoke(t, p, aMethod, AtTip)
		got := upstream.SaidBy(err, upstream.GRPC)
		if got == nil || got.Code != int64(code) || got.Text != "rate limit exceeded" {
			t.Errorf("error passed on for status %v = %+v, %v; want code and text", code, got, err)
		}
	}
	n.refuse(codes.ResourceExhausted, "grpc: received message larger than max (9 vs. 8)", false)
	if a, err := invoke(t, p, aMethod, AtTip); err != nil || a.Reason != BadInput {
		t.Errorf("call with a too large message = %+v, %v; want bad input", a, err)
	}
}
