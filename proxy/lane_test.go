package proxy_test

import (
	"bufio"
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

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream/expect"
)

// rawConn is a client connection on which a test sends raw requests.
type rawConn struct {
	net.Conn
	answers *bufio.Reader
}

func dial(tb testing.TB, addr net.Addr) *rawConn {
	tb.Helper()
	conn := expect.Value(net.Dial("tcp", addr.String()))(tb)
	tb.Cleanup(func() { conn.Close() })
	return &rawConn{conn, bufio.NewReader(conn)}
}

// roundTrip sends a request and returns the response.
func (l *rawConn) roundTrip(tb testing.TB, request string) string {
	tb.Helper()
	response, err := l.tryRoundTrip(request)
	if err != nil {
		tb.Fatalf("%q: %v", request, err)
	}
	return response
}

var errClosed = errors.New("server closed the connection before the response")

// tryRoundTrip sends a request and returns the response, or errClosed if the connection ends before it.
func (l *rawConn) tryRoundTrip(request string) (string, error) {
	_ = l.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(l, request); err != nil {
		return "", errClosed
	}
	if _, err := l.answers.Peek(1); err != nil {
		return "", errClosed
	}
	var head strings.Builder
	for !strings.HasSuffix(head.String(), "\r\n\r\n") {
		text, err := l.answers.ReadString('\n')
		head.WriteString(text)
		if err != nil {
			return "", fmt.Errorf("response ends after %q: %w", head.String(), err)
		}
	}
	if strings.HasPrefix(request, "HEAD ") || strings.HasPrefix(head.String(), "HTTP/1.1 304") {
		return head.String(), nil
	}
	_, after, _ := strings.Cut(head.String(), "\r\nContent-Length: ")
	length, _, _ := strings.Cut(after, "\r\n")
	n, _ := strconv.Atoi(length)
	body := make([]byte, n)
	if n, err := io.ReadFull(l.answers, body); err != nil {
		return "", fmt.Errorf("response ends after %d bytes of %d: %w", n, len(body), err)
	}
	return head.String() + string(body), nil
}

// varyingParts matches what differs between two equal responses: times, lifetimes, limits and request ids.
var varyingParts = regexp.MustCompile(`(?m)^(Date|Age): .*\r\n|ttl=-?\d+|max-age=\d+|s-maxage=\d+|[0-9a-f]{32}|;r=\d+;t=\d+`)

// comparableLines returns the lines of a response without varying parts. The order of headers may differ, so it is sorted.
func comparableLines(response string) []string {
	head, body, _ := strings.Cut(response, "\r\n\r\n")
	if len(body) < 4<<10 { // an error body contains the request id
		body = varyingParts.ReplaceAllString(body, "")
	}
	return slices.Sorted(strings.SplitSeq(varyingParts.ReplaceAllString(head+"\r\n", "")+"\r\n"+body, "\r\n"))
}

const (
	getPool     = "GET /staking/pool HTTP/1.1\r\nHost: x\r\n\r\n"
	manyHeaders = "Host: x\r\nUser-Agent: a browser\r\nAccept: application/json, text/plain, */*\r\n"
)

// post returns a request for a listing.
func post(body string, headers ...string) string {
	head := "POST /api/v4/collections HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
	for _, h := range headers {
		head += h + "\r\n"
	}
	return head + "Content-Length: " + strconv.Itoa(len(body)) + "\r\n\r\n" + body
}

// laneHits returns the number of requests that the lane has served.
func laneHits(t *testing.T, registry prometheus.Gatherer) int {
	t.Helper()
	return int(expect.Metric(t, registry, "tipcache_proxy_fast_lane_requests_total", "answered"))
}

// warmLane sends a request until the lane has served one, and returns the response. net/http may be late with the end
// of a request.
func warmLane(t *testing.T, registry prometheus.Gatherer, c *rawConn, request string) (response string) {
	t.Helper()
	for tries := 0; laneHits(t, registry) == 0; tries++ {
		if response = c.roundTrip(t, request); tries == 1000 {
			t.Fatal("lane served none of 1000 requests")
		}
	}
	return response
}
