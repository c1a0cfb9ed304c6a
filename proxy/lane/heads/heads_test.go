package heads

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strings"
	"testing"
)

// A recorded request is one that a client or a proxy really sent, or one of which parsers
// may disagree.
type recorded struct{ Name, Head, Body string }

func recordings(tb testing.TB, file string) (all []recorded) {
	tb.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err != nil {
		tb.Fatal(err)
	}
	if err := json.Unmarshal(text, &all); err != nil {
		tb.Fatal(err)
	}
	return all
}

// disagreement is where the lane takes a text, and net/http understands it otherwise; "" for none.
func disagreement(text string) string {
	var r Request
	n, v := r.Parse(text)
	if said := otherAgain(&r, text, n, v); said != "" {
		return said
	}
	if v != Taken {
		return ""
	}
	from := strings.NewReader(text)
	buffered := bufio.NewReaderSize(from, 64<<10)
	theirs, err := http.ReadRequest(buffered)
	if err != nil {
		return err.Error()
	}
	body, err := io.ReadAll(theirs.Body)
	left := buffered.Buffered() + from.Len()
	switch {
	case err != nil:
		return "body: " + err.Error()
	case theirs.Method != r.Method, theirs.RequestURI != r.Target, theirs.Host != r.Value(Host), theirs.ProtoMajor != 1, theirs.ProtoMinor != r.Minor:
		return fmt.Sprintf("%s %s of %s, HTTP/1.%d", theirs.Method, theirs.RequestURI, theirs.Host, theirs.ProtoMinor)
	case theirs.Close != r.Close, len(theirs.TransferEncoding) > 0, theirs.Trailer != nil, theirs.Header["Upgrade"] != nil, theirs.Header["Expect"] != nil:
		return "it is framed otherwise"
	case string(body) != r.Body, left != len(text)-n:
		return fmt.Sprintf("body %q, and %d bytes after it", body, left)
	}
	for h := Host + 1; h < count; h++ {
		if got, want := fmt.Sprintf("%q", r.Values(h)), fmt.Sprintf("%q", theirs.Header[table[h].name]); got != want && h != TransferEncoding {
			return fmt.Sprintf("%s is %s, and %s here", table[h].name, want, got)
		}
	}
	return otherKey(&r, theirs)
}

// otherAgain holds what a text means by itself, as it was read just now, against what it means behind a request
// with the same lines, and behind this one with another method and version.
func otherAgain(alone *Request, text string, n int, v Verdict) string {
	_, lines, ok := strings.Cut(text, "\r\n")
	if !ok {
		return ""
	}
	for _, before := range []string{"GET / HTTP/1.1", "HEAD /?a HTTP/1.0", "POST / HTTP/1.1"} {
		var r Request
		for range 2 { // the lines of the second are kept
			r.Parse(before + "\r\n" + lines)
		}
		if again, verdict := r.Parse(text); again != n || verdict != v || v == Taken && told(&r) != told(alone) {
			return fmt.Sprintf("behind %s: %d, %d bytes, %s; %d, %d bytes, %s by itself", before, verdict, again, told(&r), v, n, told(alone))
		}
	}
	return ""
}

func told(r *Request) string {
	return fmt.Sprintf("%s %q %q %d %t %d %q %x", r.Method, r.Target, r.Body, r.Minor, r.Close, r.Size, r.values, r.sent)
}

// otherKey holds the key of what net/http has read against that of the bytes.
func otherKey(r *Request, theirs *http.Request) string {
	if r.Method == http.MethodPost {
		return ""
	}
	var from Request
	ok := from.ReadFrom(theirs)
	if got, want := string(from.AppendKey(nil)), string(r.AppendKey(nil)); !ok || got != want || from.Size > r.Size {
		return fmt.Sprintf("key %q of %d bytes, and %q of %d here", got, from.Size, want, r.Size)
	}
	return ""
}

func TestHeadsOfClientsAreTaken(t *testing.T) {
	const left = "options|websocket|_ws|chunked|post-stream|expect|headers_|h2c|proxy-absolute|squid-itself|eventsource|java-httpclient|post-1m5|xff-in|rawheaders|favicon"
	taken := 0
	for _, request := range recordings(t, "clients.json") {
		var r Request
		n, v := r.Parse(request.Head + request.Body)
		if v == Taken {
			taken++
		}
		if v == Taken && n != len(request.Head+request.Body) || v == Odd && !containsAny(request, left) {
			t.Errorf("%s: verdict %d, %d bytes of %d", request.Name, v, n, len(request.Head))
		}
		if said := disagreement(request.Head + request.Body); said != "" {
			t.Errorf("%s: net/http has %s", request.Name, said)
		}
	}
	t.Logf("%d taken", taken)
}

func containsAny(r recorded, words string) bool {
	for word := range strings.SplitSeq(words, "|") {
		if strings.Contains(r.Name, word) {
			return true
		}
	}
	return false
}

func TestOddHeadsAreNotTakenOtherwiseThanByNetHTTP(t *testing.T) {
	for _, request := range recordings(t, "odd.json") {
		if said := disagreement(request.Head); said != "" {
			t.Errorf("%s: net/http has %s", request.Name, said)
		}
	}
}

const plain = "GET /p HTTP/1.1\r\nHost: x\r\n"

// What is smuggled in one of these, net/http judges.
func TestHeadsThatFrameOtherwiseAreOdd(t *testing.T) {
	for name, text := range map[string]string{
		"two lengths":               "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\nx",
		"a length and chunks":       "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
		"chunks in another case":    "POST /p HTTP/1.1\r\nHost: x\r\ntransfer-ENCODING: ChunKed\r\n\r\n0\r\n\r\n",
		"a length with a sign":      "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: +1\r\n\r\nx",
		"a length with a zero":      "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 01\r\n\r\nx",
		"a list of lengths":         "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 1, 1\r\n\r\nx",
		"no length":                 "POST /p HTTP/1.1\r\nHost: x\r\n\r\n",
		"an empty length":           "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length:\r\n\r\n",
		"too long a body":           "POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 16385\r\n\r\n",
		"a body of a GET":           plain + "Content-Length: 1\r\n\r\nx",
		"two hosts":                 plain + "host: x\r\n\r\n",
		"no host":                   "GET /p HTTP/1.1\r\n\r\n",
		"an empty host":             "GET /p HTTP/1.1\r\nHost:\r\n\r\n",
		"a host with an at":         "GET /p HTTP/1.1\r\nHost: x@y\r\n\r\n",
		"a blank before the colon":  plain + "X-Api-Key : k\r\n\r\n",
		"a folded line":             plain + "X-Api-Key: k\r\n 1\r\n\r\n",
		"a fold first":              "GET /p HTTP/1.1\r\n Host: x\r\n\r\n",
		"a bare LF":                 plain + "A: b\n\r\n",
		"a bare LF at the end":      plain + "\n",
		"a bare CR":                 plain + "A: b\rC: d\r\n\r\n",
		"two CRs":                   plain + "A: b\r\r\n\r\n",
		"a NUL":                     plain + "A: b\x00\r\n\r\n",
		"a DEL":                     plain + "A: \x7f\r\n\r\n",
		"no name":                   plain + ": b\r\n\r\n",
		"no colon":                  plain + "A\r\n\r\n",
		"a name that is no token":   plain + "A@B: c\r\n\r\n",
		"an empty line before it":   "\r\n" + plain + "\r\n",
		"an absolute target":        "GET http://x/p HTTP/1.1\r\nHost: x\r\n\r\n",
		"no target":                 "GET  HTTP/1.1\r\nHost: x\r\n\r\n",
		"two blanks":                "GET  /p HTTP/1.1\r\nHost: x\r\n\r\n",
		"a blank behind":            "GET /p HTTP/1.1 \r\nHost: x\r\n\r\n",
		"a tab":                     "GET\t/p HTTP/1.1\r\nHost: x\r\n\r\n",
		"an escape that is none":    "GET /%zz HTTP/1.1\r\nHost: x\r\n\r\n",
		"an escape that is cut":     "GET /%2?a HTTP/1.1\r\nHost: x\r\n\r\n",
		"bytes beyond ASCII":        "GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
		"another method":            "PUT /p HTTP/1.1\r\nHost: x\r\n\r\n",
		"a method in small letters": "get /p HTTP/1.1\r\nHost: x\r\n\r\n",
		"another version":           "GET /p HTTP/1.2\r\nHost: x\r\n\r\n",
		"HTTP/2":                    "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"HTTP/1.0 that stays":       "GET /p HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\n\r\n",
		"an upgrade":                plain + "Connection: upgrade\r\nUpgrade: h2c\r\n\r\n",
		"close and more":            plain + "Connection: close, x-api-key\r\n\r\n",
		"close in other letters":    plain + "Connection: clo\u017fe\r\n\r\n",
		"an expectation":            plain + "Expect: 100-continue\r\n\r\n",
		"a trailer":                 plain + "Trailer: X-Api-Key\r\n\r\n",
		"a key twice":               plain + "X-Api-Key: a\r\nx-api-key: b\r\n\r\n",
		"conditions on two lines":   plain + "If-None-Match: \"a\"\r\nIf-None-Match: \"b\"\r\n\r\n",
		"a stream":                  plain + "Accept: text/Event-Stream\r\n\r\n",
		"a body in a coding":        "POST /p HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx",
		"too long a head":           plain + "A: " + strings.Repeat("x", MaxHead) + "\r\n\r\n",
		"too long a head, cut":      plain + "A: " + strings.Repeat("x", MaxHead),
	} {
		var r Request
		if _, v := r.Parse(text); v != Odd {
			t.Errorf("%s: verdict %d", name, v)
		}
	}
}

func TestWhatIsTakenIsShortUntilItsEnd(t *testing.T) {
	for _, request := range append(recordings(t, "clients.json"), recorded{Head: plain + "\r\n"}) {
		var r Request
		text := request.Head + request.Body
		n, v := r.Parse(text)
		if v != Taken {
			continue
		}
		for end := range n {
			if _, v := r.Parse(text[:end]); v != Short {
				t.Fatalf("%s: the first %d bytes are %d", request.Name, end, v)
			}
		}
		if more, v := r.Parse(text + "\r\nGET"); v != Taken || more != n {
			t.Fatalf("%s: with more behind it the verdict is %d, of %d bytes", request.Name, v, more)
		}
	}
}

// What clients say of themselves makes no difference to the key.
func TestClientsDoNotCount(t *testing.T) {
	keys, heads := map[string]bool{}, map[string]bool{}
	for _, request := range recordings(t, "clients.json") {
		var r Request
		first, rest, _ := strings.Cut(request.Head, "\r\n")
		if _, v := r.Parse(request.Head); v != Taken || !strings.HasPrefix(first, "GET ") {
			continue
		}
		r.Target, r.values[Host] = "/", "x" // which tell what was recorded where
		keys[string(r.AppendKey(nil))], heads[rest] = true, true
	}
	if len(keys) > 3 { // none, and two heights
		t.Errorf("%d heads have %d keys: %v", len(heads), len(keys), keys)
	}
}

func FuzzHeadsAreUnderstoodAsByNetHTTP(f *testing.F) {
	for _, file := range []string{"clients.json", "odd.json"} {
		for _, request := range recordings(f, file) {
			f.Add(request.Head + request.Body)
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if said := disagreement(text); said != "" {
			t.Errorf("%q: net/http has %s", text, said)
		}
	})
}

var many = flag.Int("heads", 20_000, "random heads that are held against net/http")

// Heads of random parts are nearer to what is taken than those that a fuzzer makes.
func TestRandomHeadsAreUnderstoodAsByNetHTTP(t *testing.T) {
	known := append(recordings(t, "clients.json"), recordings(t, "odd.json")...)
	seed := rand.Uint64()
	random, taken := rand.New(rand.NewPCG(seed, 0)), 0
	for range *many {
		text := randomHead(random, known)
		if said := disagreement(text); said != "" {
			t.Fatalf("seed %d: %q: net/http has %s", seed, text, said)
		}
		if _, v := new(Request).Parse(text); v == Taken {
			taken++
		}
	}
	if t.Logf("%d of %d were taken", taken, *many); taken < *many/10 {
		t.Error("too few were taken")
	}
}

// randomHead has lines of recorded heads, of names that have a row, and some bytes that are others.
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
			line = table[random.IntN(int(count))].name + ": " + []string{"", "0", "1", "5", "x", "close", "chunked", " 1 ", "\"a\"", "text/event-stream"}[random.IntN(10)] + "\r\n"
		case 2:
			line = strings.ToLower(table[random.IntN(int(count))].name) + ":x\r\n"
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

func BenchmarkParse(b *testing.B) {
	for _, name := range []string{"wrk_get", "chromium_https_fetch-same", "via-nginx-ingress-nginx-set-h2_firefox_fetch"} {
		for _, request := range recordings(b, "clients.json") {
			if request.Name == name {
				b.Run(name+"/again", func(b *testing.B) { parse(b, request.Head, request.Head) })
				b.Run(name+"/of others", func(b *testing.B) { parse(b, request.Head, strings.Replace(request.Head, "Host: ", "Host: x", 1)) })
			}
		}
	}
}

func parse(b *testing.B, heads ...string) {
	b.Helper()
	var r Request
	var key []byte
	for i := 0; b.Loop(); i++ {
		if _, v := r.Parse(heads[i%len(heads)]); v != Taken {
			b.Fatal(v)
		}
		key = r.AppendKey(key[:0])
	}
}

func TestAByteIsJudgedTheSameWhereverItStands(t *testing.T) {
	for c := range 256 {
		for at := range 20 {
			value := strings.Repeat("a", at) + string([]byte{byte(c)}) + strings.Repeat("b", 19-at)
			if want := c == '\t' || c >= ' ' && c != 0x7f; isValue(value) != want {
				t.Errorf("byte %#x at %d: %t", c, at, !want)
			}
		}
	}
}

func TestTargetsHaveWholeEscapes(t *testing.T) {
	for target, want := range map[string]bool{"/": true, "/a%41": true, "/a%4": false, "/a%": false, "/%4g": false, "/a?%4": true, "": false, "a": false, "/a b": false, "/\x7f": false} {
		if got := isTarget(target); got != want {
			t.Errorf("isTarget(%q) = %t, want %t", target, got, want)
		}
	}
}
