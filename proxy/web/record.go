package web

import (
	"encoding/binary"
	"encoding/hex"
	"math/rand/v2"
	"net/http"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/lane"
)

// NoRoute is the route's name where there is none: paths are not labels.
const NoRoute = "none"

// A Record is what one request is remembered by, in the log and in metrics.
type Record struct {
	route   string
	Start   time.Time
	id      [1]string // also the header's values
	tenant  string    // the name on the request's key
	outcome string    // hit, stale, miss, collapsed, stale_error; without the cache answered, refused, abandoned or failed
	store   string
	height  int64 // of the block it was answered at
	Tip     int64 // newest block known then; 0 for none
	Pinned  bool  // the client chose the height
	age     time.Duration
	err     error
	span    trace.Span // nil where traces are off

	key    Key        // the request's, where one is required
	client *Conn      // nil: it is not ours
	conn   *lane.Conn // nil: the answer is of no use to the fast lane
	memory Memory

	cached   bool // the cache gave the answer, and what is known of its age
	Degraded bool // a page that lacks metadata it should have
}

// ended is what is known of a request at its end.
type ended struct {
	asked
	client       netip.Addr // not valid where the connection has no address
	status, size int
	took         time.Duration
	id           []byte // nil: the record's
}

// asked is what the client sent, as the log has it.
type asked struct {
	method, path, query, agent string
}

// The longest query and User-Agent that are logged, in bytes.
const (
	maxQuery = 2 << 10
	maxAgent = 256
)

func askedBy(r *http.Request) asked {
	return asked{r.Method, r.URL.Path, atMost(maxQuery, withoutKeys(r.URL.RawQuery)), atMost(maxAgent, r.UserAgent())}
}

func atMost(bytes int, text string) string { return text[:min(len(text), bytes)] }

// Result notes what came of asking the cache.
func (rec *Record) Result(res cache.Result) {
	rec.cached = true
	rec.outcome, rec.store, rec.err = outcome(res), res.Store, res.Err
	rec.height, rec.age = res.Entry.Height, max(0, rec.Start.Sub(res.Entry.ReadAt))
}

// outcome tells the callers that joined a flight from the caller that began it.
func outcome(res cache.Result) string {
	if res.Outcome == cache.Miss && res.Collapsed {
		return "collapsed"
	}
	return res.Outcome.String()
}

// requestID takes the client's id if it is harmless, else makes one. An id has
// to be one of a kind, and no secret.
func requestID(h http.Header) string {
	if sent := h[RequestIDHeader]; len(sent) > 0 && safeID(sent[0]) {
		return sent[0]
	}
	var room [32]byte
	return string(appendID(room[:0]))
}

// appendID makes an id.
func appendID(b []byte) []byte {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	return hex.AppendEncode(b, id[:])
}

func safeID(id string) bool {
	for _, c := range []byte(id) {
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '-' || c == '_' || c == '.' || c == ':') {
			return false
		}
	}
	return 0 < len(id) && len(id) <= 64
}

// keyInQuery is a key that a URL for EventSource carries, wherever that URL is
// opened.
var keyInQuery = regexp.MustCompile(`(api_key=)[^&]*`)

// withoutKeys is a query as it may be logged.
func withoutKeys(query string) string {
	if !strings.Contains(query, "api_key=") {
		return query
	}
	return keyInQuery.ReplaceAllString(query, "${1}redacted")
}
