package heads

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
)

// A recorded request was sent by a real client or proxy, or is one that parsers disagree about.
type recorded struct{ Name, Head, Body string }

func recordings(tb testing.TB, file string) (all []recorded) {
	tb.Helper()
	text := expect.Value(os.ReadFile("testdata/" + file))(tb)
	expect.NoError(tb, json.Unmarshal(text, &all))
	return all
}

// checkAgainstNetHTTP returns how Parse differs from net/http for a text that it accepts, or "".
func checkAgainstNetHTTP(text string) string {
	var r Request
	n, v := r.Parse(text)
	if diff := checkRepeat(&r, text, n, v); diff != "" {
		return diff
	}
	if v != Complete {
		return ""
	}
	from := strings.NewReader(text)
	buffered := bufio.NewReaderSize(from, 64<<10)
	want, err := http.ReadRequest(buffered)
	if err != nil {
		return err.Error()
	}
	body, err := io.ReadAll(want.Body)
	left := buffered.Buffered() + from.Len()
	switch {
	case err != nil:
		return "body: " + err.Error()
	case want.Method != r.Method, want.RequestURI != r.Target, want.Host != r.Value(Host), want.ProtoMajor != 1, want.ProtoMinor != r.Minor:
		return fmt.Sprintf("%s %s of %s, HTTP/1.%d", want.Method, want.RequestURI, want.Host, want.ProtoMinor)
	case want.Close != r.Close, len(want.TransferEncoding) > 0, want.Trailer != nil, want.Header["Upgrade"] != nil, want.Header["Expect"] != nil:
		return "different framing"
	case string(body) != r.Body, left != len(text)-n:
		return fmt.Sprintf("body %q and %d bytes after it", body, left)
	}
	for h := Host + 1; h < headerCount; h++ {
		if got, want := fmt.Sprintf("%q", r.Values(h)), fmt.Sprintf("%q", want.Header[Names[h]]); got != want && h != TransferEncoding {
			return fmt.Sprintf("%s = %s, got %s", Names[h], want, got)
		}
	}
	return checkKey(&r, want)
}

// checkRepeat returns how the result of Parse changes if requests with the same header lines, but other methods and
// versions, were parsed before, or "". alone is the result without such requests.
func checkRepeat(alone *Request, text string, n int, v Verdict) string {
	_, lines, ok := strings.Cut(text, "\r\n")
	if !ok {
		return ""
	}
	for _, before := range []string{"GET / HTTP/1.1", "HEAD /?a HTTP/1.0", "POST / HTTP/1.1"} {
		var r Request
		for range 2 { // Parse copies the lines of the second request
			r.Parse(before + "\r\n" + lines)
		}
		if again, verdict := r.Parse(text); again != n || verdict != v || v == Complete && describe(&r) != describe(alone) {
			return fmt.Sprintf("after %s: verdict %d, %d bytes, %s; alone: verdict %d, %d bytes, %s", before, verdict, again, describe(&r), v, n, describe(alone))
		}
	}
	return ""
}

func describe(r *Request) string {
	return fmt.Sprintf("%s %q %q %d %t %d %q %x", r.Method, r.Target, r.Body, r.Minor, r.Close, r.Size, r.values, r.sent)
}

// checkKey returns how the keys of ReadFrom and Parse differ, or "".
func checkKey(r *Request, want *http.Request) string {
	if r.Method == http.MethodPost {
		return ""
	}
	var from Request
	ok := from.ReadFrom(want)
	if got, want := string(from.AppendKey(nil)), string(r.AppendKey(nil)); !ok || got != want || from.Size > r.Size {
		return fmt.Sprintf("key %q with size %d, got %q with size %d", got, from.Size, want, r.Size)
	}
	return ""
}

func TestHeadsOfClientsAreAccepted(t *testing.T) {
	const left = "options|websocket|_ws|chunked|post-stream|expect|headers_|h2c|proxy-absolute|squid-itself|eventsource|java-httpclient|post-1m5|xff-in|rawheaders|favicon"
	accepted := 0
	for _, request := range recordings(t, "clients.json") {
		var r Request
		n, v := r.Parse(request.Head + request.Body)
		if v == Complete {
			accepted++
		}
		if v == Complete && n != len(request.Head+request.Body) || v == Unsupported && !containsAny(request, left) {
			t.Errorf("%s: verdict %d, %d bytes of %d", request.Name, v, n, len(request.Head))
		}
		expect.Equal(t, checkAgainstNetHTTP(request.Head+request.Body), "", "%s: difference from net/http", request.Name)
	}
	t.Logf("%d accepted", accepted)
}

func containsAny(r recorded, words string) bool {
	for word := range strings.SplitSeq(words, "|") {
		if strings.Contains(r.Name, word) {
			return true
		}
	}
	return false
}

func TestAmbiguousHeadsAreParsedAsByNetHTTP(t *testing.T) {
	for _, request := range recordings(t, "odd.json") {
		expect.Equal(t, checkAgainstNetHTTP(request.Head), "", "%s: difference from net/http", request.Name)
	}
}

const plain = "GET /p HTTP/1.1\r\nHost: x\r\n"

// Each of these heads has been used for request smuggling, or is not in the accepted subset.
func TestAmbiguousHeadsAreUnsupported(t *testing.T) {
	for name, text := range map[string]string{
		"two lengths":              "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
		"a length and chunks":      "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"chunks in another case":   "POST /p HTTP/1.1\r\nHost: x\r\ntransfer-ENCODING: ChunKed\r\n\r\n0\r\n\r\n",
		"a length with a sign":     "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\nx",
		"a length with a zero":     "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 01\r\n\r\nx",
		"a list of lengths":        "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\nx",
		"no length":                "POST /p HTTP/1.1\r\nHost: x\r\n\r\n",
		"an empty length":          "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\n",
		"too long a body":          "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 16385\r\n\r\n",
		"a body of a GET":          plain + "Content-Length: 1\r\n\r\nx",
		"two hosts":                plain + "host: x\r\n\r\n",
		"no host":                  "GET /p HTTP/1.1\r\n\r\n",
		"an empty host":            "GET /p HTTP/1.1\r\nHost:\r\n\r\n",
		"a host with an at":        "GET /p HTTP/1.1\r\nHost: x@y\r\n\r\n",
		"a space before the colon": plain + "X-Api-Key : k\r\n\r\n",
		"a folded line":            plain + "X-Api-Key: k\r\n 1\r\n\r\n",
		"a fold first":             "GET /p HTTP/1.1\r\n Host: x\r\n\r\n",
		"a bare LF":                plain + "A: b\n\r\n",
		"a bare LF at the end":     plain + "\n",
		"a bare CR":                plain + "A: b\rC: d\r\n\r\n",
		"two CRs":                  plain + "A: b\r\r\n\r\n",
		"a NUL":                    plain + "A: b\x00\r\n\r\n",
		"a DEL":                    plain + "A: \x7f\r\n\r\n",
		"no name":                  plain + ": b\r\n\r\n",
		"no colon":                 plain + "A\r\n\r\n",
		"a name with an at":        plain + "A@B: c\r\n\r\n",
		"an empty line first":      "\r\n" + plain + "\r\n",
		"an absolute target":       "GET http://x/p HTTP/1.1\r\nHost: x\r\n\r\n",
		"no target":                "GET  HTTP/1.1\r\nHost: x\r\n\r\n",
		"two spaces":               "GET  /p HTTP/1.1\r\nHost: x\r\n\r\n",
		"a space at the end":       "GET /p HTTP/1.1 \r\nHost: x\r\n\r\n",
		"a tab":                    "GET\t/p HTTP/1.1\r\nHost: x\r\n\r\n",
		"an invalid escape":        "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
		"a truncated escape":       "GET /%2?a HTTP/1.1\r\nHost: x\r\n\r\n",
		"bytes outside ASCII":      "GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
		"another method":           "PUT /p HTTP/1.1\r\nHost: x\r\n\r\n",
		"a lower-case method":      "get /p HTTP/1.1\r\nHost: x\r\n\r\n",
		"another version":          "GET /p HTTP/1.2\r\nHost: x\r\n\r\n",
		"HTTP/2":                   "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"HTTP/1.0 keep-alive":      "GET /p HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
		"an upgrade":               plain + "Connection: upgrade\r\nUpgrade: h2c\r\n\r\n",
		"close and more":           plain + "Connection: close, x-api-key\r\n\r\n",
		"close with a long s":      plain + "Connection: clo\u017fe\r\n\r\n",
		"an expectation":           plain + "Expect: 100-continue\r\n\r\n",
		"a trailer":                plain + "Trailer: X-Api-Key\r\n\r\n",
		"a key twice":              plain + "X-Api-Key: a\r\nx-api-key: b\r\n\r\n",
		"conditions on two lines":  plain + "If-None-Match: \"a\"\r\nIf-None-Match: \"b\"\r\n\r\n",
		"a stream":                 plain + "Accept: text/Event-Stream\r\n\r\n",
		"a body in a coding":       "POST /p HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx",
		"too long a head":          plain + "A: " + strings.Repeat("x", MaxHead) + "\r\n\r\n",
		"too long a head, cut":     plain + "A: " + strings.Repeat("x", MaxHead),
	} {
		var r Request
		if _, v := r.Parse(text); v != Unsupported {
			t.Errorf("%s: verdict = %d, want Unsupported", name, v)
		}
	}
}

func TestPrefixOfAcceptedRequestIsIncomplete(t *testing.T) {
	for _, request := range append(recordings(t, "clients.json"), recorded{Head: plain + "\r\n"}) {
		var r Request
		text := request.Head + request.Body
		n, v := r.Parse(text)
		if v != Complete {
			continue
		}
		for end := range n {
			if _, v := r.Parse(text[:end]); v != Incomplete {
				t.Fatalf("%s: verdict on the first %d bytes = %d, want Incomplete", request.Name, end, v)
			}
		}
		if more, v := r.Parse(text + "\r\nGET"); v != Complete || more != n {
			t.Fatalf("%s: with more bytes after it: verdict %d, length %d, want Complete and %d", request.Name, v, more, n)
		}
	}
}

func TestHeadersThatDescribeTheClientAreNotInTheKey(t *testing.T) {
	keys, heads := map[string]bool{}, map[string]bool{}
	for _, request := range recordings(t, "clients.json") {
		var r Request
		first, rest, _ := strings.Cut(request.Head, "\r\n")
		if _, v := r.Parse(request.Head); v != Complete || !strings.HasPrefix(first, "GET ") {
			continue
		}
		r.Target, r.values[Host] = "/", "x" // these differ between the recordings
		keys[string(r.AppendKey(nil))], heads[rest] = true, true
	}
	if len(keys) > 5 { // without a height, and two heights
		t.Errorf("%d heads have %d keys, want at most 5: %v", len(heads), len(keys), keys)
	}
}

func FuzzHeadsAreParsedAsByNetHTTP(f *testing.F) {
	for _, file := range []string{"clients.json", "odd.json"} {
		for _, request := range recordings(f, file) {
			f.Add(request.Head + request.Body)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		expect.Equal(t, checkAgainstNetHTTP(text), "", "%q: difference from net/http", text)
	})
}

var randomHeads = flag.Int("heads", 20_000, "number of random heads to compare with net/http")

// Random combinations of recorded lines are accepted more often than a fuzzer's inputs.
func TestRandomHeadsAreParsedAsByNetHTTP(t *testing.T) {
	known := append(recordings(t, "clients.json"), recordings(t, "odd.json")...)
	seed := rand.Uint64()
	random, accepted := rand.New(rand.NewPCG(seed, 0)), 0
	for range *randomHeads {
		text := randomHead(random, known)
		if diff := checkAgainstNetHTTP(text); diff != "" {
			t.Fatalf("seed %d: %q: differs from net/http: %s", seed, text, diff)
		}
		if _, v := new(Request).Parse(text); v == Complete {
			accepted++
		}
	}
	if accepted < *randomHeads/10 {
		t.Errorf("%d of %d heads were accepted, want a tenth", accepted, *randomHeads)
	}
}

// randomHead combines recorded lines and lines with names of the table, and changes some bytes.
func randomHead(random *rand.Rand, known []recorded) string {
	pick := func() recorded { return known[random.IntN(len(known))] }
	from := pick()
	lines := strings.SplitAfter(from.Head, "\n")
	for range random.IntN(4) {
		at := 1 + random.IntN(max(1, len(lines)-2))
		var line string
		switch random.IntN(3) {
		case 0:
			others := strings.SplitAfter(pick().Head, "\n")
			line = others[random.IntN(len(others))]
		case 1:
			line = Names[random.IntN(int(headerCount))] + ": " + []string{"", "0", "1", "5", "x", "close", "chunked", " 1 ", "\"a\"", "text/event-stream"}[random.IntN(10)] + "\r\n"
		case 2:
			line = strings.ToLower(Names[random.IntN(int(headerCount))]) + ":x\r\n"
		}
		lines = append(lines[:min(at, len(lines)):min(at, len(lines))], append([]string{line}, lines[min(at, len(lines)):]...)...)
	}
	text := []byte(strings.Join(lines, "") + from.Body)
	for range random.IntN(8) - 5 {
		at := random.IntN(len(text))
		switch odd := "\r\n\t :,%?#/\x00\x7f\x80\xff0A"; random.IntN(3) {
		case 0:
			text[at] = odd[random.IntN(len(odd))]
		case 1:
			text[at] ^= 0x20
		case 2:
			text = append(text[:at], text[min(at+1, len(text)):]...)
			if len(text) == 0 {
				return ""
			}
		}
	}
	return string(text)
}

func TestControlBytesAreFoundAtEachPosition(t *testing.T) {
	for c := range 256 {
		for at := range 20 {
			value := strings.Repeat("a", at) + string([]byte{byte(c)}) + strings.Repeat("b", 19-at)
			if want := c == '\t' || c >= ' ' && c != 0x7f; isValue(value) != want {
				t.Errorf("isValue with byte %#x at %d = %t, want %t", c, at, !want, want)
			}
		}
	}
}

func TestTargetsWithInvalidEscapesAreRejected(t *testing.T) {
	for target, want := range map[string]bool{"/": true, "/a%41": true, "/a%4": false, "/a%": false, "/%4g": false, "/a?%4": true, "": false, "a": false, "/a b": false, "/\x7f": false} {
		expect.Equal(t, isTarget(target), want, "isTarget(%q)", target)
	}
}

func TestRequestsThatTheLaneCannotServeAreNotRead(t *testing.T) {
	for name, change := range map[string]func(*http.Request){
		"":            func(*http.Request) {},
		"a body":      func(r *http.Request) { r.ContentLength = 2 },
		"a post":      func(r *http.Request) { r.Method = http.MethodPost },
		"no path":     func(r *http.Request) { r.RequestURI = "*" },
		"no host":     func(r *http.Request) { r.Host = "" },
		"a bad host":  func(r *http.Request) { r.Host = "a b" },
		"a long body": func(r *http.Request) { r.ContentLength = -1 },
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/a?b=c", nil)
		change(r)
		expect.Equal(t, new(Request).ReadFrom(r), name == "", "%q: ReadFrom", name)
	}
}
