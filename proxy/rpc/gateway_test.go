package rpc_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy/rpc"
)

const (
	paramsCall = `{"jsonrpc":"2.0","id":7,"method":"abci_query","params":{"path":"/cosmos.staking.v1beta1.Query/Params"}}`
	paramsAsk  = `abci_query{"path":"/cosmos.staking.v1beta1.Query/Params"}`
)

func TestGatewayErrorsArePassedOnAndNotCached(t *testing.T) {
	long := strings.Repeat("x", 300)
	for name, tt := range map[string]struct{ said, want string }{
		"a rate limit":            {`"error":{"code":-32005,"message":"rate limit exceeded"}`, `"error":{"code":-32005,"message":"rate limit exceeded"}`},
		"a long text":             {`"error":{"code":-32005,"message":"` + long + `"}`, `"error":{"code":-32005,"message":"` + long[:256] + `"}`},
		"an unknown server error": {`"error":{"code":-32000,"message":"upstream gone"}`, `"error":{"code":-32000,"message":"upstream gone"}`},
		"an unknown failure":      {`"error":{"code":-32603,"message":"Internal error","data":"disk full"}`, `"error":{"code":-32603,"message":"Internal error: disk full"}`},
		"an HTTP code":            {`"error":{"code":429,"message":"slow down"}`, `"error":{"code":429,"message":"slow down"}`},
	} {
		t.Run(name, func(t *testing.T) {
			n := newRecordedNode(t)
			server, _ := newHandler(t, n, rpc.Options{})
			n.says(paramsAsk, tt.said)
			if resp, body := post(t, server.URL, paramsCall); body != `{"jsonrpc":"2.0","id":7,`+tt.want+`}` || resp.StatusCode != http.StatusOK {
				t.Errorf("status %d: %s, want the error %s", resp.StatusCode, body, tt.want)
			}
			if resp, body := get(t, server.URL+`/abci_query?path="/cosmos.staking.v1beta1.Query/Params"`); !strings.Contains(body, tt.want) || resp.StatusCode != http.StatusInternalServerError {
				t.Errorf("by a URI: status %d: %s, want the error %s", resp.StatusCode, body, tt.want)
			}
			n.learnParams()
			if _, body := post(t, server.URL, paramsCall); !strings.Contains(body, `"value":"Cg=="`) {
				t.Errorf("once the node answers: %s", body)
			}
		})
	}
}

func TestGatewayErrorsDoNotReplaceCachedValues(t *testing.T) {
	n := newRecordedNode(t)
	server, _ := newHandler(t, n, rpc.Options{})
	n.says("status", `"error":{"code":-32005,"message":"rate limit exceeded"}`)
	n.says("block", `"result":{"block_id":{}}`)
	call := `{"jsonrpc":"2.0","id":7,"method":"block","params":{}}`
	_, before := post(t, server.URL, call)
	n.says("block", `"error":{"code":-32005,"message":"rate limit exceeded"}`)
	for range 3 {
		if _, body := post(t, server.URL, call); body != before {
			t.Errorf("got %s, want the cached %s", body, before)
		}
	}
}
