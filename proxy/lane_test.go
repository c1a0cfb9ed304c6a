package proxy_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/lane"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A line is a client's connection, on which requests are sent as they are.
type line struct {
	net.Conn
	answers *bufio.Reader
}

func dial(tb testing.TB, addr net.Addr) *line {
	tb.Helper()
	conn := expect.Value(net.Dial("tcp", addr.String()))(tb)
	tb.Cleanup(func() { conn.Close() })
	return &line{conn, bufio.NewReader(conn)}
}

// ask returns the answer as it came.
func (l *line) ask(tb testing.TB, request string) string {
	tb.Helper()
	answer, err := l.tryToAsk(request)
	if err != nil {
		tb.Fatalf("%q: %v", request, err)
	}
	return answer
}

var errLeft = errors.New("the server has closed the connection before the answer")

// tryToAsk returns errLeft where nothing of an answer came.
func (l *line) tryToAsk(request string) (string, error) {
	_ = l.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(l, request); err != nil {
		return "", errLeft
	}
	if _, err := l.answers.Peek(1); err != nil {
		return "", errLeft
	}
	var head strings.Builder
	for !strings.HasSuffix(head.String(), "\r\n\r\n") {
		text, err := l.answers.ReadString('\n')
		head.WriteString(text)
		if err != nil {
			return "", fmt.Errorf("the answer ends after %q: %w", head.String(), err)
		}
	}
	if strings.HasPrefix(request, "HEAD ") || strings.HasPrefix(head.String(), "HTTP/1.1 304") {
		return head.String(), nil
	}
	body := make([]byte, bodyLength(head.String()))
	if n, err := io.ReadFull(l.answers, body); err != nil {
		return "", fmt.Errorf("the answer ends after %d bytes of %d: %w", n, len(body), err)
	}
	return head.String() + string(body), nil
}

func bodyLength(head string) (n int) {
	_, after, _ := strings.Cut(head, "\r\nContent-Length: ")
	length, _, _ := strings.Cut(after, "\r\n")
	n, _ = strconv.Atoi(length)
	return n
}

// What may differ from one answer to the next: times, what follows from them,
// and ids of our own.
var passing = regexp.MustCompile(`(?m)^(Date|Age): .*\r\n|ttl=-?\d+|max-age=\d+|s-maxage=\d+|[0-9a-f]{32}`)

func lasting(answer string) string {
	head, body, _ := strings.Cut(answer, "\r\n\r\n")
	if len(body) < 4<<10 { // of an error: it has the id
		return passing.ReplaceAllString(answer, "")
	}
	return passing.ReplaceAllString(head+"\r\n", "") + "\r\n" + body
}

const manyHeaders = "Host: x\r\nUser-Agent: a browser\r\nAccept: application/json, text/plain, */*\r\n"

// repeated are requests that come again and again, byte for byte.
var repeated = []string{
	"GET /staking/pool HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET //staking//pool/?x=1 HTTP/1.1\r\nHost: x\r\n\r\n",
	"HEAD /staking/pool HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /staking/params HTTP/1.1\r\n" + manyHeaders + "Origin: https://a.example\r\n\r\n",
	"GET /staking/params HTTP/1.1\r\n" + manyHeaders + "Origin: https://b.example\r\n\r\n",
	"GET /staking/validators HTTP/1.1\r\n" + manyHeaders + "\r\n",
	"GET /staking/validators HTTP/1.1\r\n" + manyHeaders + "Accept-Encoding: gzip\r\n\r\n",
	"GET /staking/validators HTTP/1.1\r\n" + manyHeaders + "Accept-Encoding: gzip, deflate, br, zstd\r\n\r\n",
	"GET /staking/validators HTTP/1.1\r\n" + manyHeaders + "Accept-Encoding: zstd;q=1, identity;q=0\r\n\r\n",
	"HEAD /staking/validators HTTP/1.1\r\n" + manyHeaders + "Accept-Encoding: gzip\r\n\r\n",
	"GET /staking/validators HTTP/1.1\r\n" + manyHeaders + "If-None-Match: *\r\n\r\n",
	"GET /staking/validators HTTP/1.1\r\n" + manyHeaders + "If-None-Match: \"a\", W/\"b\"\r\n\r\n",
	"GET /staking/validators HTTP/1.1\r\n" + manyHeaders + "X-Block-Height: 200\r\n\r\n",
	"GET /staking/validators HTTP/1.1\r\n" + manyHeaders + "X-Min-Block-Height: 200\r\n\r\n",
	"GET /staking/validators HTTP/1.1\r\n" + manyHeaders + "X-Block-Height: 20000\r\n\r\n",
	"GET /staking/validators?x-block-height=200&x=1 HTTP/1.1\r\n" + manyHeaders + "\r\n",
	"GET /staking/validators?x-block-height=200 HTTP/1.1\r\n" + manyHeaders + "X-Block-Height: 200\r\n\r\n",
	"GET /staking/validators?x-min-block-height=200 HTTP/1.1\r\n" + manyHeaders + "\r\n",
	"GET /staking/validators?pagination.limit=x HTTP/1.1\r\n" + manyHeaders + "\r\n",
	"GET /staking/validators HTTP/1.1\r\n" + manyHeaders + "X-Request-Id: mine\r\n\r\n",
	"GET /staking/validators HTTP/1.1\r\n" + manyHeaders + "X-Request-Id: not harmless\r\n\r\n",
	"GET /staking/validators HTTP/1.1\r\n" + manyHeaders + "x-request-id: one\r\nx-request-id: two\r\n\r\n",
	"GET /staking/validators/" + nobody + " HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /staking/validators HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\n\r\nx",
	"GET /no/such/path HTTP/1.1\r\nHost: x\r\n\r\n",
	"DELETE /staking/pool HTTP/1.1\r\nHost: x\r\n\r\n",
	"OPTIONS /staking/pool HTTP/1.1\r\nHost: x\r\nOrigin: https://a.example\r\nAccess-Control-Request-Method: GET\r\n\r\n",
	"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n",
}

func TestLaneAnswersAsTheHandlerDoes(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]proxy.Options{
		"for pages of any origin":  {},
		"for pages of one origin":  {Web: web.Options{CORSOrigins: []string{"https://a.example"}}},
		"for no pages":             {Web: web.Options{CORSOrigins: []string{"none"}}},
		"in the node's own shape":  {Chain: story.Options{Shape: story.Node}},
		"with limits that suffice": {Web: web.Options{Limits: limits.Limits{Address: limits.Rate{Requests: 1e6, Per: time.Second, Burst: 1e6}}}},
	} {
		t.Run(name, func(t *testing.T) {
			without := startChainWithout(t, o)
			with := startChain(t, o)
			compareRepeated(t, dial(t, without.Listener.Addr()), dial(t, with.Listener.Addr()), repeated)
		})
	}
}

// compareRepeated sends each request often enough for the lane to answer it.
func compareRepeated(t *testing.T, without, with *line, requests []string) {
	t.Helper()
	for _, request := range requests {
		var want, got string
		for range 5 {
			want, got = without.ask(t, request), with.ask(t, request)
		}
		want, got = reset.ReplaceAllString(lasting(want), ""), reset.ReplaceAllString(lasting(got), "")
		if diff := cmp.Diff(sorted(want), sorted(got)); diff != "" {
			t.Errorf("%s\n(-without lane +with lane):\n%s", request, diff)
		}
	}
}

// sorted are the lines of an answer: the order of headers does not count.
func sorted(answer string) []string { return slices.Sorted(strings.SplitSeq(answer, "\r\n")) }

// reset is how a limit stands, which depends on the moment.
var reset = regexp.MustCompile(`;r=\d+;t=\d+`)

func post(body string, headers ...string) string {
	head := "POST /api/v4/collections HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	for _, h := range headers {
		head += h + "\r\n"
	}
	return head + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

func TestLaneAnswersListingsAsTheHandlerDoes(t *testing.T) {
	key := "X-Api-Key: " + testKey
	requests := []string{
		post(`{}`, key),
		post(`{ "pagination": {"limit": 1} }`, key),
		post(`{}`, key, "Accept-Encoding: gzip"),
		post(`{}`, key, "If-None-Match: *"),
		post(`{}`),
		post(`{}`, "X-Api-Key: wrong"),
		post(`{"pagination": {"limit": 1000}}`, key),
		post(`{`, key),
	}
	limited := limits.Limits{Key: limits.Rate{Requests: 1e6, Per: time.Second, Burst: 1e6}, Address: limits.Rate{Requests: 1e6, Per: time.Second, Burst: 1e6}}
	for name, in := range map[string]limits.Limits{"without limits": {}, "with limits that suffice": limited} {
		t.Run(name, func(t *testing.T) {
			limit := func(o *proxy.Options) { o.Web.Limits = in }
			without, with := startListWithout(t, listing.Options{}, limit), startList(t, listing.Options{}, limit)
			compareRepeated(t, dial(t, without.Listener.Addr()), dial(t, with.Listener.Addr()), requests)
		})
	}
}

const getPool = "GET /staking/pool HTTP/1.1\r\nHost: x\r\n\r\n"

func hitsOf(t *testing.T, registry prometheus.Gatherer) int {
	t.Helper()
	return int(expect.Metric(t, registry, "tipcache_proxy_fast_lane_requests_total", "answered"))
}

func TestLaneHitsAreCountedAndLogged(t *testing.T) {
	told := func(fast web.Lane) (metrics, log string) {
		registry, lines := prometheus.NewRegistry(), &bytes.Buffer{}
		s := startChainWithout(t, proxy.Options{Web: web.Options{Lane: fast, Registerer: registry, AccessLog: lines}})
		conn := dial(t, s.Listener.Addr())
		for range 10 {
			conn.ask(t, getPool)
		}
		s.Close()
		return strings.Join(counted(t, registry, "tipcache_proxy_requests_total"), "\n"), passingInLog.ReplaceAllString(lines.String(), "")
	}
	metrics, log := told(nil)
	laneMetrics, laneLog := told(lane.New(lane.Options{}))
	expect.NoDiff(t, laneMetrics, metrics, "metrics with the lane")
	expect.NoDiff(t, strings.Split(laneLog, "\n"), strings.Split(log, "\n"), "access log with the lane")
}

// passingInLog is what one line of the log has and the next has not.
var passingInLog = regexp.MustCompile(`"(time|request_id)":"[^"]*"|"(duration_ms|age_s)":[0-9.e-]+`)

func TestLaneAppliesNewKeysAndLimits(t *testing.T) {
	request := post(`{}`, "X-Api-Key: "+testKey)
	for name, change := range map[string]struct {
		to     func(p *proxy.Server)
		status string
	}{
		"a key that was taken away": {func(p *proxy.Server) { p.SetKeys(nil) }, "401"},
		"more than a limit": {func(p *proxy.Server) {
			p.SetLimits(limits.Limits{Key: limits.Rate{Requests: 1, Per: time.Hour, Burst: 1}})
		}, "429"},
	} {
		t.Run(name, func(t *testing.T) {
			registry := prometheus.NewRegistry()
			fast := lane.New(lane.Options{Registerer: registry})
			s := startListWithout(t, listing.Options{}, func(o *proxy.Options) { o.Web.Lane = fast })
			conn := dial(t, s.Listener.Addr())
			for tries := 0; hitsOf(t, registry) == 0; tries++ { // net/http may be late with the end of a request
				if conn.ask(t, request); tries == 1000 {
					t.Fatal("lane served no request")
				}
			}
			change.to(s.proxy)
			var answer string
			for range 6 {
				answer = conn.ask(t, request)
			}
			if !strings.HasPrefix(answer, "HTTP/1.1 "+change.status) {
				t.Errorf("the answer is %.200s", answer)
			}
		})
	}
}
