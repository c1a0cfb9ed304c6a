package lane_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy/lane/heads"
	"github.com/tipcache/tipcache/upstream/expect"
)

// otherNames are headers that other servers use.
const otherNames = `A-IM Accept-Charset Accept-Datetime Accept-Language Alt-Used Authorization CDN-Loop Cache-Control Client-IP
	CF-Connecting-IP Content-Digest Content-Disposition Content-Language Content-Location Content-MD5 Content-Range Cookie Cookie2
	Date Destination Depth Digest Early-Data ETag Forwarded From Front-End-Https HTTP2-Settings Idempotency-Key If If-Match
	If-Modified-Since If-Range If-Unmodified-Since Keep-Alive Last-Event-ID Last-Modified Link Location Lock-Token Max-Forwards
	MIME-Version Overwrite Pragma Prefer Priority Proxy-Authorization Proxy-Connection Range Referer Save-Data Sec-WebSocket-Key
	Service-Worker Surrogate-Capability TE Timeout Traceparent Tracestate True-Client-IP Upgrade-Insecure-Requests User Vary Via Want-Digest
	Warning X-Api_Key X_Api_Key X-ATT-DeviceId X-B3-TraceId X-Cache X-Client-IP X-Correlation-ID X-Csrf-Token X-Forwarded-Host
	X-Forwarded-Path X-Forwarded-Port X-Forwarded-Prefix X-Forwarded-Scheme X-Forwarded-Server X-HTTP-Method
	X-HTTP-Method-Override X-Host X-Idempotency-Key X-Method-Override X-Original-URL X-Original-URI X-Purge X-Real-IP X-Requested-With
	X-Rewrite-URL X-Tenant X-Token X-UIDH X-User X-Wap-Profile Grpc-Metadata-X Grpc-Timeout Grpc-Metadata-Tenant`

// unlisted returns header names outside the table: those in recordings of clients, and otherNames.
func unlisted(t *testing.T) (names []string) {
	t.Helper()
	text := expect.Value(os.ReadFile("heads/testdata/clients.json"))(t)
	var recorded []struct{ Head string }
	expect.NoError(t, json.Unmarshal(text, &recorded))
	for _, request := range recorded {
		for line := range strings.SplitSeq(request.Head, "\r\n") {
			if name, _, ok := strings.Cut(line, ":"); ok && !strings.Contains(name, " ") {
				names = append(names, strings.ToLower(name))
			}
		}
	}
	names = append(names, strings.Fields(strings.ToLower(otherNames))...)
	slices.Sort(names)
	return slices.DeleteFunc(slices.Compact(names), func(name string) bool {
		return slices.ContainsFunc(heads.Names[:], func(row string) bool { return strings.EqualFold(row, name) })
	})
}

// No handler, limit or log reads a header outside the table.
func TestHeaderOutsideTableChangesNothing(t *testing.T) {
	p := startProduct(t, nil)
	requests := []string{
		getPool + "\r\n",
		getParams + "Accept-Encoding: gzip\r\nOrigin: https://a.example\r\n\r\n",
		getPool + "X-Block-Height: 100\r\n\r\n",
		"GET /staking/pool?x=1 HTTP/1.0\r\nHost: x\r\n\r\n",
		keyed + "Content-Length: 2\r\n\r\n{}",
		list + "Content-Length: 2\r\n\r\n{}",
		"GET /no/such/path HTTP/1.1\r\nHost: x\r\n\r\n",
	}
	names, values := unlisted(t), []string{"", "1", "*", "no-cache", "192.0.2.9", "text/event-stream", "https://b.example/staking/params", "PUT"}
	if len(names) < 100 {
		t.Fatalf("got %d names, want at least 100", len(names))
	}
	for _, request := range requests {
		ask := func(line string) string {
			head, rest, _ := strings.Cut(request, "\r\n")
			w := p.dial()
			w.send([]byte(head + "\r\n" + line + rest))
			w.settle()
			w.end()
			return normalize(p, w.waitClosed())
		}
		ask("")
		want := ask("")
		for i, name := range names {
			for j := range 2 {
				line := name + ": " + values[(i+j)%len(values)] + "\r\n"
				expect.NoDiff(t, lines([]byte(ask(line))), lines([]byte(want)), "%q in %q with it", line, request)
			}
		}
	}
}
