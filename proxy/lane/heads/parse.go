// Package heads parses request heads strictly. It accepts a subset of HTTP/1 that net/http parses to the same result:
// GET, HEAD, and POST with Content-Length, with a target in origin form. An HTTP/1.0 request must end the connection.
// Requests with other headers that change the message framing (headers.go) are left to net/http.
package heads

import (
	"net/http"
	"strings"
	"unsafe"

	"golang.org/x/net/http/httpguts"
)

// Limits of an accepted request, in bytes.
const (
	MaxHead = 8 << 10
	MaxBody = 16 << 10
)

// A Request is a parsed request. Its strings are valid until the next Parse, or until the text that they were parsed from is
// overwritten.
type Request struct {
	Method string // GET, HEAD or POST
	Target string // in origin form, as sent
	Body   string // of a POST
	Minor  int    // minor version of HTTP/1

	callerID struct{ from, to int }
	lines

	reused bool // a request was parsed before
}

// lines holds the parsed header lines.
type lines struct {
	Close bool // the connection must be closed after the response
	Size  int  // upper bound of the size of all names and values, in bytes

	values [headerCount]string
	sent   uint32 // a bit for each header that the request has

	text    []byte  // copy of the header lines, which values refer to; empty if they refer to the parsed text
	length  int     // length of the header lines with the empty line
	framing framing // with which the lines were parsed
}

// framing holds the parts of the request line that the meaning of a header line depends on.
type framing struct {
	minor int
	post  bool
}

// maxCopied is the maximum size of the header lines that a connection retains, in bytes.
const maxCopied = 1 << 10

// Values returns the value of a header as a slice, empty if the request does not have it.
func (r *Request) Values(h Header) []string {
	if r.sent&(1<<h) == 0 {
		return nil
	}
	return r.values[h : h+1 : h+1]
}

// Value returns the value of a header, or "".
func (r *Request) Value(h Header) string { return r.values[h] }

// A Verdict is the result of Parse.
type Verdict int

// The verdicts.
const (
	Complete    Verdict = iota // text starts with an accepted request
	Incomplete                 // text is the beginning of a request
	Unsupported                // only net/http can judge text
)

// Parse parses the request at the beginning of text and returns its length. Clients send the same header lines with each
// request, so Parse skips them if they equal those of the previous request.
func (r *Request) Parse(text string) (n int, v Verdict) {
	if n, v = r.parseRequestLine(text); v != Complete {
		return 0, v
	}
	current := framing{r.Minor, r.Method == http.MethodPost}
	if len(r.text) == 0 || r.framing != current || !strings.HasPrefix(text[n:], unsafe.String(&r.text[0], len(r.text))) { //nolint:gosec // which is only read
		if v = r.parseFields(text, n, current); v != Complete {
			return 0, v
		}
		r.reused = true
	}
	return r.parseBody(text, n+r.length)
}

// Forget drops all references to the parsed text. Copied header lines are retained.
func (r *Request) Forget() {
	r.Method, r.Target, r.Body = "", "", ""
	if len(r.text) == 0 {
		r.values, r.sent = [headerCount]string{}, 0
	}
}

// parseFields parses the header lines at n. It copies them so that the next Parse can compare, except if they are long or
// belong to the connection's first request, which is often the only one.
func (r *Request) parseFields(text string, n int, current framing) Verdict {
	rest, kept := text[n:], r.text[:0]
	if end := strings.Index(rest, "\r\n\r\n"); r.reused && end >= 0 && end <= maxCopied {
		kept = append(kept, rest[:end+len("\r\n\r\n")]...)
		rest = unsafe.String(&kept[0], len(kept)) //nolint:gosec // kept is overwritten only with the next lines
	}
	const added = len("Cache-Control" + "no-cache") // net/http adds this header to a request with Pragma
	r.lines = lines{Close: current.minor == 0, Size: added, text: kept[:0], framing: current}
	for at := 0; ; {
		end, ok := lineEnd(rest[at:])
		switch {
		case !ok:
			return incomplete(text, n+at)
		case end == 0:
			r.text, r.length = kept, at+len("\r\n")
			return Complete
		case !r.parseField(rest[at : at+end]):
			return Unsupported
		}
		at += end + len("\r\n")
	}
}

// incomplete returns the verdict on a text whose last line, at n, has no CRLF. A line that ends with a bare LF is
// unsupported.
func incomplete(text string, n int) Verdict {
	if len(text) > MaxHead || strings.IndexByte(text[n:], '\n') >= 0 {
		return Unsupported
	}
	return Incomplete
}

// lineEnd returns the position of the first CRLF.
func lineEnd(text string) (end int, ok bool) {
	lf := strings.IndexByte(text, '\n')
	return lf - 1, lf > 0 && text[lf-1] == '\r'
}

// parseRequestLine returns the position of the first header line.
func (r *Request) parseRequestLine(text string) (n int, v Verdict) {
	end, ok := lineEnd(text)
	if !ok {
		return 0, incomplete(text, 0)
	}
	line := text[:end]
	const version = " HTTP/1."
	at := len(line) - len(version) - 1
	if at < 0 || line[at:len(line)-1] != version || line[len(line)-1] != '0' && line[len(line)-1] != '1' {
		return 0, Unsupported
	}
	r.Minor = int(line[len(line)-1] - '0')
	method, target, _ := strings.Cut(line[:at], " ")
	if method != http.MethodGet && method != http.MethodHead && method != http.MethodPost || !isTarget(target) {
		return 0, Unsupported
	}
	r.Method, r.Target = method, target
	return end + len("\r\n"), Complete
}

// isTarget reports whether target is in origin form. Escapes in the path must be valid, because net/http decodes them.
func isTarget(target string) bool {
	if target == "" || target[0] != '/' {
		return false
	}
	inPath := true
	for i := 0; i < len(target); i++ {
		switch c := target[i]; {
		case c <= ' ' || c >= 0x7f:
			return false
		case c == '?':
			inPath = false
		case c == '%' && inPath && (i+2 >= len(target) || !isHex(target[i+1]) || !isHex(target[i+2])):
			return false
		}
	}
	return true
}

func isHex(c byte) bool { return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f' }

func (r *Request) parseField(line string) bool {
	colon := 0
	for colon < len(line) && httpguts.IsTokenRune(rune(line[colon])) {
		colon++
	}
	if colon == 0 || colon == len(line) || line[colon] != ':' {
		return false
	}
	value := trim(line[colon+1:])
	if !isValue(value) {
		return false
	}
	h, known := findHeader(line[:colon])
	r.Size += colon + len(value)
	return !known || r.set(h, value)
}

// set stores a known header. It returns false if the request must go to net/http.
func (r *Request) set(h Header, value string) bool {
	if r.sent&(1<<h) != 0 || h >= ContentEncoding && (h != ContentEncoding || r.Method == http.MethodPost) {
		return false
	}
	r.sent |= 1 << h
	r.values[h] = value
	switch h {
	case Host:
		return isHost(value)
	case Accept:
		return !namesStream(value)
	case Connection:
		return r.setConnection(value)
	}
	return true
}

// setConnection accepts "upgrade", which has no effect without an Upgrade header, and that one is unsupported.
func (r *Request) setConnection(value string) bool {
	switch {
	case equalWord(value, "close"):
		r.Close = true
		return true
	case r.Minor == 0:
		return false
	}
	return equalWord(value, "keep-alive") || equalWord(value, "upgrade")
}

func equalWord(value, word string) bool { return len(value) == len(word) && hasPrefixFold(value, word) }

// parseBody takes the body that begins at n.
func (r *Request) parseBody(text string, n int) (int, Verdict) {
	length, ok := r.bodyLength()
	switch {
	case !ok, n > MaxHead, r.sent&(1<<Host) == 0:
		return 0, Unsupported
	case len(text) < n+length:
		return 0, Incomplete
	}
	r.Body, r.callerID.from, r.callerID.to = text[n:n+length], 0, 0
	return n + length, Complete
}

func (r *Request) bodyLength() (n int, ok bool) {
	value, sent := r.values[ContentLength], r.sent&(1<<ContentLength) != 0
	switch {
	case value == "0", !sent && r.Method != http.MethodPost:
		return 0, true
	case !sent, value == "", value[0] == '0', len(value) > len("16384"), r.Method != http.MethodPost:
		return 0, false
	}
	for _, digit := range []byte(value) {
		if digit < '0' || digit > '9' {
			return 0, false
		}
		n = 10*n + int(digit-'0')
	}
	return n, n <= MaxBody
}

// namesStream reports whether an Accept value may name the media type of event streams, which the lane does not serve. It
// returns true for any value outside ASCII, where lower-casing is not a bit operation.
func namesStream(value string) bool {
	const name = "event-stream"
	for i := range len(value) {
		switch {
		case value[i] >= 0x80:
			return true
		case value[i]|0x20 == 'e' && len(value)-i >= len(name) && hasPrefixFold(value[i:], name):
			return true
		}
	}
	return false
}

func isHost(value string) bool {
	for _, c := range []byte(value) {
		if !('a' <= c|0x20 && c|0x20 <= 'z' || '0' <= c && c <= '9' || c == '.' || c == '-' || c == '_' || c == ':' || c == '[' || c == ']') {
			return false
		}
	}
	return value != ""
}

// trim removes surrounding spaces and tabs.
func trim(value string) string {
	for value != "" && (value[0] == ' ' || value[0] == '\t') {
		value = value[1:]
	}
	for value != "" && (value[len(value)-1] == ' ' || value[len(value)-1] == '\t') {
		value = value[:len(value)-1]
	}
	return value
}

// isValue reports whether value has no control bytes other than tabs. It checks eight bytes at a time, and single bytes
// only where one of the eight may be a control byte.
func isValue(value string) bool {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for ; len(value) >= 8; value = value[8:] {
		w := uint64(value[0]) | uint64(value[1])<<8 | uint64(value[2])<<16 | uint64(value[3])<<24 |
			uint64(value[4])<<32 | uint64(value[5])<<40 | uint64(value[6])<<48 | uint64(value[7])<<56
		deleted := w ^ 0x7f*ones
		if (w-' '*ones)&^w&highs|(deleted-ones)&^deleted&highs != 0 && !isShortValue(value[:8]) {
			return false
		}
	}
	return isShortValue(value)
}

func isShortValue(value string) bool {
	for _, c := range []byte(value) {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
}
