package lane_test

import (
	"bufio"
	"bytes"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// materials are the parts of a stream: requests that the lane stores, similar ones, and ones that parsers disagree about.
var materials = [...]string{
	getA,
	"GET /memory/large HTTP/1.1\r\nHost: x\r\n\r\n",
	"HEAD /memory/a HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /memory/a HTTP/1.1\r\nHost: x\r\nX-Request-ID: one\r\n\r\n",
	"GET /memory/a HTTP/1.1\r\nHost: x\r\nX-Request-ID: two\r\n\r\n",
	"GET /memory/a HTTP/1.1\r\nHost: x\r\nX-Request-ID: \r\n\r\n",
	"GET /memory/a HTTP/1.1\r\nHost: x\r\nX-Request-ID: one\r\nx-request-id: two\r\n\r\n",
	"GET /memory/a HTTP/1.1\r\nx-request-id: one\r\ntraceparent: 00-aa-bb-00\r\nHost: x\r\n\r\n",
	"POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
	"POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
	"POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 37\r\n\r\n" + getA,
	"POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 22\r\n\r\n\r\nX-Request-ID: three\r\n",
	"POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nGET /memory/a HTTP/1.1\r\nHost: x\r\n\r\n",
	"POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\nContent-Length: 5\r\n\r\nhello",
	"POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello",
	"POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
	"POST /memory/a HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
	"POST /memory/a HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
	"GET /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
	"GET /other HTTP/1.1\r\nHost: x\r\n\r\n",
	"GET /memory/a HTTP/1.1\nHost: x\n\n",
	"GET /memory/a HTTP/1.1\r\nHost: x\r\n\n",
	"GET /memory/a HTTP/1.1\r\nHost: x\n\r\n",
	"GET /memory/a HTTP/1.1\r\nHost: x\r\nA: b\r\n c\r\n\r\n",
	"GET /memory/a HTTP/1.1\r\nHost: x\r\n \r\n\r\n",
	"GET /memory/a HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
	"GET /memory/a HTTP/1.0\r\nConnection: keep-alive\r\n\r\n",
	"GET /memory/a HTTP/1.0\r\nHost: x\r\nConnection: close\r\n\r\n",
	getA + getA + "GET /memory/a HTTP/1.1\r\nHost: y\r\n\r\n" + getA,
	"GET /memory/a HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nTE: trailers\r\nAccept: text/html\r\n\r\n",
	"GET /memory/a HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\n\r\n",
	"GET /memory/a HTTP/1.1\r\nhOST: \tx \r\nX_Request_Id: one\r\n\r\n",
	"GET /memory/a HTTP/1.0\r\n\r\n",
	"GET /memory/a HTTP/1.1\r\n\r\n",
	"OPTIONS * HTTP/1.1\r\nHost: x\r\n\r\n",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
	"\r\n", "\n", "\r", "\r\n\r\n", "G", " ", ":", "\x00",
}

// A player is a server for scripts.
type player interface {
	dial() *wire
	change(mode byte)   // changes the data of responses while no request is in progress
	noticesClose() bool // reports whether responses depend on when the client disconnects
}

func (s *server) change(byte) { s.version.Add(1) }

func (s *server) noticesClose() bool { return false }

// A twin is a server without a lane and one whose lane has stored the materials.
type twin struct {
	mu          sync.Mutex
	plain, lane *server
}

func newTwin(tb testing.TB) *twin {
	limits := func(s *http.Server) { s.ErrorLog = nil }
	tw := &twin{plain: startServer(tb, nil, limits), lane: startServer(tb, newLane(), limits)}
	learn(tw.lane, materials[:]...)
	return tw
}

// play sends one stream to both servers and returns their responses.
func (tw *twin) play(script []byte) (plain, lane []byte) {
	tw.mu.Lock()
	defer tw.mu.Unlock()
	tw.plain.version.Store(1)
	tw.lane.version.Store(1)
	return play(tw.plain, materials[:], script), play(tw.lane, materials[:], script)
}

// play runs a script. Each step has a byte that selects the action, one that selects the material, and for some actions a
// position. It removes net/http's response to a last request that cannot be parsed: net/http sends none to a truncated one of
// less than four bytes, counting empty lines, which the lane skips.
func play(p player, materials []string, script []byte) []byte {
	w := p.dial()
	var piece, sent []byte
	send := func(bytes []byte) {
		sent = append(sent, bytes...)
		w.send(bytes)
	}
	next := func() int {
		if len(script) == 0 {
			return 0
		}
		b := script[0]
		script = script[1:]
		return int(b)
	}
	for len(script) > 0 {
		step, which := next(), next()
		material := []byte(materials[which%len(materials)])
		switch step % 8 {
		case 0, 1, 2: // a whole request, and its response
			send(append(piece, material...))
			piece = nil
			w.settle()
		case 3: // sent together with the next material
			piece = append(piece, material...)
		case 4: // split
			at := next() % (len(material) + 1)
			send(append(piece, material[:at]...))
			if step&8 == 0 {
				w.settle()
			}
			send(material[at:])
			piece = nil
		case 5: // with one byte changed
			at := next() % len(material)
			material[at] = byte(next())
			send(append(piece, material...))
			piece = nil
		case 6: // with one byte removed
			at := next() % len(material)
			send(append(append(piece, material[:at]...), material[at+1:]...))
			piece = nil
			w.settle()
		case 7:
			w.settle()
			if isWhole(sent) { // otherwise a request is in progress, and the lane may not have seen its end
				p.change(byte(which))
			}
		}
	}
	send(piece)
	if p.noticesClose() {
		w.settle()
	}
	w.end()
	return bytes.TrimSuffix(w.waitClosed(), []byte("HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"))
}

// isWhole reports whether a stream ends with the end of a request.
func isWhole(stream []byte) bool {
	from := bufio.NewReader(bytes.NewReader(stream))
	for {
		if _, err := from.Peek(1); err != nil {
			return true
		}
		r, err := http.ReadRequest(from)
		if err != nil {
			return false
		}
		if _, err = io.Copy(io.Discard, r.Body); err != nil {
			return false
		}
	}
}

// Both servers must send the same bytes for every stream.
func FuzzLaneIsTransparent(f *testing.F) {
	addScripts(f, len(materials))
	var refused []byte // net/http would skip the empty line, because it knows only the POST
	for _, m := range []string{"POST /memory/a HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\nhello", getA, "\r\n", getA} {
		refused = append(refused, 0, byte(slices.Index(materials[:], m)))
	}
	f.Add(refused)
	tw := newTwin(f)
	f.Fuzz(func(t *testing.T, script []byte) {
		if len(script) > 200 {
			t.Skip()
		}
		plain, lane := tw.play(script)
		plain, lane = date.ReplaceAll(plain, nil), date.ReplaceAll(lane, nil)
		if !bytes.Equal(plain, lane) {
			t.Errorf("responses differ (-without lane +with lane):\n%s", cmp.Diff(lines(plain), lines(lane)))
		}
	})
}

// addScripts adds seeds with each material alone, and with others.
func addScripts(f *testing.F, materials int) {
	for i := range materials {
		f.Add([]byte{0, byte(i), 0, 0, 0, byte(i), 4, byte(i), 7, 0, 0})
		f.Add([]byte{3, 0, 0, byte(i), 0, 0, 5, byte(i), 9, '\n', 6, byte(i), 3, 0, 0})
	}
}

// date matches the header that net/http adds to its own responses.
var date = regexp.MustCompile("Date: [^\r]*\r\n")

func lines(b []byte) []string { return strings.SplitAfter(string(b), "\n") }
