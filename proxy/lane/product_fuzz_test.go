package lane_test

import (
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
)

const (
	getPool   = "GET /staking/pool HTTP/1.1\r\nHost: x\r\n"
	getParams = "GET /staking/params HTTP/1.1\r\nHost: x\r\n"
	list      = "POST /api/v4/collections HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	keyed     = list + "X-Api-Key: " + productKey + "\r\n"
)

// productMaterials are requests that the lane stores, requests that are refused, and ones that parsers disagree about.
var productMaterials = [...]string{
	getPool + "\r\n",
	getParams + "\r\n",
	getParams + "Accept-Encoding: gzip\r\n\r\n",
	getParams + "Accept-Encoding: zstd;q=1, identity;q=0\r\n\r\n",
	getParams + "If-None-Match: *\r\n\r\n",
	getParams + "Origin: https://a.example\r\n\r\n",
	"HEAD /staking/params HTTP/1.1\r\nHost: x\r\n\r\n",
	getPool + "X-Request-ID: one\r\n\r\n",
	getPool + "X-Request-ID: two\r\n\r\n",
	getPool + "X-Request-ID: \r\n\r\n",
	getPool + "X-Request-ID: not harmless\r\n\r\n",
	getPool + "X-Request-ID: one\r\nx-request-id: two\r\n\r\n",
	"GET /staking/pool HTTP/1.1\r\nx-request-id: one\r\ntraceparent: 00-aa-bb-00\r\nHost: x\r\n\r\n",
	getPool + "X-Block-Height: 100\r\n\r\n",
	getPool + "X-Min-Block-Height: 100\r\n\r\n",
	getPool + "X-Block-Height: x\r\n\r\n",
	getPool + "X-Session: 100\r\n\r\n",
	getPool + "X-Session: 228.00000000000000E3\r\n\r\n",
	getPool + "X-Session: 229.00000001\r\n\r\n",
	getPool + "X-Session: x\r\n\r\n",
	getPool + "X-Session: 5\r\nX-Session: 6\r\n\r\n",
	getPool + "X-Min-Block-Height: 100.0000000000000063\r\n\r\n",
	keyed + "Content-Length: 2\r\n\r\n{}",
	keyed + "Content-Length: 4\r\n\r\n\r\n{}",
	keyed + "Content-Length: 4\r\n\r\n{}\r\n",
	keyed + "Content-Length: 2\r\n\r\n{}" + getPool + "\r\n",
	keyed + "Accept-Encoding: gzip\r\nContent-Length: 30\r\n\r\n{\"pagination\": {\"limit\": 100}}",
	keyed + "X-Request-Id: one\r\nContent-Length: 2\r\n\r\n{}",
	keyed + "Content-Length: 3\r\n\r\n{}G",
	keyed + "Content-Length: 0\r\n\r\n",
	keyed + "Content-Length: 2\r\nContent-Length: 2\r\n\r\n{}",
	keyed + "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
	keyed + "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
	keyed + "Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
	list + "Content-Length: 2\r\n\r\n{}",
	list + "X-Api-Key: wrong\r\nContent-Length: 2\r\n\r\n{}",
	getPool + "Content-Length: 5\r\n\r\nhello",
	"GET /no/such/path HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET //staking//pool/?x=1 HTTP/1.1\r\nHost: x\r\n\r\n",
	"DELETE /staking/pool HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /openapi.json HTTP/1.1\r\nHost: x\r\nIf-None-Match: *\r\n\r\n",
	"GET /staking/pool HTTP/1.1\nHost: x\n\n",
	getPool + "\n",
	getPool + "A: b\r\n c\r\n\r\n",
	getPool + " \r\n\r\n",
	getPool + "Connection: close\r\n\r\n",
	"GET /staking/pool HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
	"GET /staking/pool HTTP/1.0\r\nHost: x\r\nConnection: close\r\n\r\n",
	"HEAD /staking/params HTTP/1.0\r\nHost: x\r\n\r\n",
	getPool + "\r\n" + getParams + "\r\n" + getPool + "X-Request-Id: third\r\n\r\n",
	getPool + "User-Agent: a \"browser\"\\ \xff\r\nX-Forwarded-For: 192.0.2.7, x\r\nCookie: a=b\r\n\r\n",
	getPool + "User-Agent: another\r\nTE: trailers\r\nPragma: no-cache\r\nPriority: u=1\r\n\r\n",
	getPool + "X-Forwarded-For: 192.0.2.7\r\nX-Forwarded-For: 192.0.2.8\r\n\r\n",
	getParams + "Origin: null\r\nAccept-Encoding: br;q=0.1, *;q=0.5\r\nIf-None-Match: \"x\", W/\"y\"\r\n\r\n",
	"HEAD /staking/pool HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream;q=0\r\n\r\n", // for a GET, removing a byte could request a stream, which does not end
	"GET /staking/pool HTTP/1.1\r\nHost: y\r\n\r\n",
	"POST /api/v4/collections HTTP/1.1\r\nHost: y\r\nX-Api-Key: " + productKey + "\r\nContent-Type: text/plain\r\nContent-Length: 2\r\n\r\n{}",
	list + "X-Api-Key: " + productKey + " \r\nUser-Agent: b\r\nContent-Length: 2\r\n\r\n{}",
	"GET /staking/pool HTTP/1.1\r\n\r\n",
	"OPTIONS /staking/pool HTTP/1.1\r\nHost: x\r\nOrigin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n\r\n",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"\r\n", "\n", "\r", "\r\n\r\n", "G", " ", ":", "\x00",
}

// change changes the data of responses, or the access to them.
func (p *product) change(mode byte) {
	version, _, _ := p.world.now()
	switch p.changed = true; mode % 64 {
	case 0:
		p.forgotten = true
		p.admit(false, true)
	case 1:
		p.forgotten = true
		p.admit(true, false)
	case 2:
		p.forgotten = true
		p.admit(true, true)
	case 3:
		p.forgotten = true
		p.proxy.Forget()
	case 4:
		p.forgotten = true
		p.rollBack()
	default:
		p.renew(version + 1)
	}
}

// noticesClose returns true, because the cache may abandon a read.
func (p *product) noticesClose() bool { return true }

// restore resets the state between two scripts.
func (p *product) restore() {
	if p.forgotten {
		p.admit(true, true)
	}
	if p.changed {
		p.world.set(1, 228, 0)
		p.cache.SetNamespace("story-0")
		p.renew(1)
	}
	if p.forgotten {
		learn(p, productMaterials[:24]...) // the lane stores none of the others
	}
	p.changed, p.forgotten = false, false
	p.log.take()
}

// play runs a script and returns the responses and the log, normalized.
func (p *product) play(script []byte) string {
	p.restore()
	return normalize(p, play(p, productMaterials[:], script))
}

// normalize returns said and the log, without parts that may differ between two servers.
func normalize(p *product, said []byte) string {
	answers := answerHeads.ReplaceAllStringFunc(string(said), func(head string) string {
		return strings.Join(slices.Sorted(strings.SplitSeq(head, "\r\n")), "\r\n") // the order of headers may differ
	})
	return passing.ReplaceAllString(answers, "") + passingInLog.ReplaceAllString(string(p.log.take()), "")
}

var (
	answerHeads  = regexp.MustCompile(`(?s)HTTP/1\.[01] \d{3} .*?\r\n\r\n`)
	passing      = regexp.MustCompile(`(Date|Age|Retry-After): .*\r\n|ttl=-?\d+|max-age=\d+|s-maxage=\d+|[0-9a-f]{32}|;r=\d+;t=\d+`)
	passingInLog = regexp.MustCompile(`"time":"[^"]*"|"(duration_ms|age_s)":[0-9.e-]+|[0-9a-f]{32}`)
)

// The proxy must send and log the same with and without a lane.
func FuzzProductLaneIsTransparent(f *testing.F) {
	addScripts(f, len(productMaterials))
	for mode := range byte(6) {
		f.Add([]byte{0, 16, 0, 16, 7, mode, 0, 16, 0, 16, 0, 16, 0, 16, 0, 0, 7, 2, 0, 16, 0, 0, 0, 1})
	}
	f.Add([]byte("%a\xe49G")) // the access changes while a body is incomplete
	plain, fast := startProduct(f, nil), startProduct(f, newLane())
	for _, p := range []*product{plain, fast} {
		learn(p, productMaterials[:24]...) // the lane stores none of the others
	}
	var mu sync.Mutex
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 200 {
			t.Skip()
		}
		mu.Lock()
		defer mu.Unlock()
		expect.NoDiff(t, lines([]byte(fast.play(script))), lines([]byte(plain.play(script))), "responses or logs differ with the lane")
	})
}
