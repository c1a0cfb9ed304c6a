package rpc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/upstream/expect"
)

func commitOf(height int, signature string, canonical bool) string {
	return fmt.Sprintf(`"result":{"signed_header":{"header":{"height":"%d"},"commit":{"height":"%[1]d","signatures":[{"signature":%q}]}},"canonical":%t}`, height, signature, canonical)
}

// The node replaces the commit of its newest block when the next block arrives.
func TestCommitIsCachedOnlyIfCanonical(t *testing.T) {
	const tip, noHeight = `commit{"height":"746"}`, "commit"
	for name, tt := range map[string]struct{ post, uri, key string }{
		"of the newest block":       {`{"id":%d,"method":"commit","params":{"height":"746"}}`, "/commit?height=746", tip},
		"without a height":          {`{"id":%d,"method":"commit","params":{}}`, "/commit", noHeight},
		"of the newest block, list": {`{"id":%d,"method":"commit","params":["746"]}`, "/commit?height=%22746%22", tip},
	} {
		t.Run(name, func(t *testing.T) {
			n := newRecordedNode(t)
			server, _ := newHandler(t, n, rpc.Options{}, withLane)
			for i := range 4 {
				want := commitOf(746, fmt.Sprint("seen ", i), false)
				n.setAnswer(tt.key, want)
				_, body := post(t, server.URL, fmt.Sprintf(tt.post, i))
				expect.Contains(t, body, want, "POST %d", i)
				resp, body := get(t, server.URL+tt.uri)
				expect.Contains(t, body, want, "GET %d", i)
				expect.Equal(t, resp.Header.Get("Cache-Control"), "no-store", "GET %d: Cache-Control", i)
				if got := resp.Header.Get("Cache-Status"); strings.Contains(got, "stored") {
					t.Errorf("GET %d: Cache-Status = %q, want no stored", i, got)
				}
			}
			want := commitOf(746, "canonical", true)
			n.setAnswer(tt.key, want)
			_, body := post(t, server.URL, fmt.Sprintf(tt.post, 4))
			expect.Contains(t, body, want, "POST of a canonical commit")
			n.setAnswer(tt.key, commitOf(746, "of another node", true))
			_, body = post(t, server.URL, fmt.Sprintf(tt.post, 5))
			expect.Contains(t, body, want, "POST after a canonical commit")
		})
	}
}
