package web_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/trace/noop"

	tipredis "github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A lane counts its calls and answers every request with status 299 if answers is true.
type lane struct {
	web.Lane
	answers              bool
	used                 *web.Stack
	slots, serves, flush int
}

func (l *lane) Wrap(*conn.Conn, net.Conn) conn.LaneConn { return nil }
func (l *lane) Use(s *web.Stack)                        { l.used = s }
func (l *lane) Forget()                                 { l.flush++ }
func (l *lane) SlotFor(*conn.Conn, *http.Request) record.LaneSlot {
	l.slots++
	return nil
}

func (l *lane) Serve(_ *conn.Conn, w http.ResponseWriter, r *http.Request) (answered bool, sampling record.Sampling) {
	l.serves++
	if answered = l.answers && r.ProtoMajor == 2; answered {
		w.WriteHeader(299)
	}
	return answered, record.Undecided
}

func TestLaneServesUnlessOptionsPreventIt(t *testing.T) {
	rdb := redis.NewClient(&redis.Options{})
	defer func() { _ = rdb.Close() }()
	proxies := func(network string) limits.Limits {
		return limits.Limits{TrustedProxies: []netip.Prefix{netip.MustParsePrefix(network)}}
	}
	rate := limits.Limits{Address: limits.Rate{Requests: 100, Per: time.Minute, Burst: 100}}
	slow := limits.Limits{Address: limits.Rate{Requests: 59, Per: time.Minute, Burst: 100}}
	shared := limits.Shared{Redis: expect.Value(tipredis.New(rdb, tipredis.Options{}))(t), Timeout: time.Nanosecond}
	for name, tt := range map[string]struct {
		options       web.Options
		off           bool // the stack has no lane
		without       string
		http2         int // status of the response to a request of HTTP/2
		slots, serves int // of an HTTP/2 request that the lane does not answer
	}{
		"a lane":                {http2: 299, slots: 1, serves: 1},
		"limits of the process": {options: web.Options{Limits: rate}, http2: 299, slots: 1, serves: 1},
		"scheme of a proxy":     {options: web.Options{Limits: proxies("192.0.2.0/24")}, http2: 299, slots: 1, serves: 1},
		"scheme of a client":    {options: web.Options{Limits: proxies("198.51.100.0/24")}, http2: 299, serves: 1}, // must not be repeated for clients of the proxies
		"no lane":               {off: true, without: "it is switched off", http2: 200},
		"traces":                {options: web.Options{Record: record.Options{Tracing: noop.NewTracerProvider()}}, http2: 299, slots: 1, serves: 1},
		"limits with Redis":     {options: web.Options{SharedLimits: shared, Limits: rate}, http2: 299, slots: 1, serves: 1},
		"slow limits in Redis":  {options: web.Options{SharedLimits: shared, Limits: slow}, without: "the limit of addresses is below one request per second, and kept in Redis", http2: 299, slots: 1, serves: 1}, // clients with a rate of their own do not have it
	} {
		l := &lane{}
		if tt.options.CORSOrigins = []string{"https://app.example"}; !tt.off {
			tt.options.Lane = l
		}
		s, handler := newServer(tt.options, new(strings.Builder))
		expect.Equal(t, s.NoLane(), tt.without, "%s: NoLane", name)
		if !tt.off && l.used != s {
			t.Errorf("%s: the lane has no stack", name)
		}
		one, two := net.Pipe()
		defer func() { _, _ = one.Close(), two.Close() }()
		client := conn.New(one, l, nil, nil)
		get := func(protocol int) *httptest.ResponseRecorder {
			r := httptest.NewRequestWithContext(conn.Context(t.Context(), client), http.MethodGet, "/open", nil)
			r.ProtoMajor = protocol
			r.Header.Set("Origin", "https://app.example")
			r.Header.Set("X-Forwarded-Proto", "https")
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			expect.Equal(t, w.Header().Get("Access-Control-Allow-Origin") != "", true, "%s: HTTP/%d response has the headers of an allowed origin", name, protocol)
			return w
		}
		expect.Equal(t, get(2).Code, 200, "%s: status of an HTTP/2 request that the lane does not answer", name)
		expect.Equal(t, [2]int{l.slots, l.serves}, [2]int{tt.slots, tt.serves}, "%s: requests for slots and answers", name)
		l.answers = true
		expect.Equal(t, get(2).Code, tt.http2, "%s: status of an HTTP/2 request", name)
		expect.Equal(t, get(1).Code, 200, "%s: status of an HTTP/1 request, which the lane could not answer when it read it", name)
		l.flush = 0
		s.SetKeys(nil)
		s.SetLimits(limits.Limits{})
		expect.Equal(t, l.flush, map[bool]int{true: 0, false: 2}[tt.off], "%s: times that keys and limits emptied the lane", name)
	}
}
