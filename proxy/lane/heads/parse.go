// Package heads reads the heads of requests strictly: of HTTP/1 a subset of which
// net/http understands just the same.
//
// What it takes is one origin-form GET or HEAD of HTTP/1.1, or of HTTP/1.0 that ends the
// connection, or a POST with its body behind it, and no header that frames or changes the
// message (headers.go has the table). Of everything else net/http says what it means.
package heads

import (
	"net/http"
	"strings"
	"unsafe"
)

// Bounds of what is taken, in bytes.
const (
	MaxHead = 8 << 10
	MaxBody = 16 << 10
)

// A Request is what the lane knows of a request. Its texts are good until the next one is read into
// it, and for as long as what it was read from.
type Request struct {
	Method string // GET, HEAD or POST
	Target string // in origin form, as it was sent
	Body   string // of a POST
	Minor  int    // of HTTP/1
	own    struct{ from, to int }
	lines

	again bool // another request was read before
}

// lines are what the lines behind the first one say.
type lines struct {
	Close bool // the connection ends with the answer
	Size  int  // of the names and values of all headers but Host, in bytes, at most

	values [count]string
	sent   uint32 // a bit for each header

	text   []byte // their own copy of what they were read from; empty: none
	length int    // of them and the empty line
	framed framing
}

// framing is what a line may mean another thing by.
type framing struct {
	minor int
	post  bool
}

// maxRepeated bounds the lines that are kept, in bytes: each connection has its own.
const maxRepeated = 1 << 10

// Values are those of a header, of which there is one or none.
func (r *Request) Values(h Header) []string {
	if r.sent&(1<<h) == 0 {
		return nil
	}
	return r.values[h : h+1 : h+1]
}

// Value is that of a header, "" for none.
func (r *Request) Value(h Header) (value string) {
	if r.sent&(1<<h) != 0 {
		value = r.values[h]
	}
	return value
}

// A Verdict is what Parse makes of a text.
type Verdict int

// The verdicts.
const (
	Taken Verdict = iota // a whole request
	Short                // its beginning
	Odd                  // something that only net/http is to judge
)

// Parse reads the request that a text begins with, and says how long it is. Clients repeat their lines, whatever
// they ask for: those of the request that was read before are not read again.
func (r *Request) Parse(text string) (n int, v Verdict) {
	if n, v = r.line(text); v != Taken {
		return 0, v
	}
	as := framing{r.Minor, r.Method == http.MethodPost}
	if len(r.text) == 0 || r.framed != as || !strings.HasPrefix(text[n:], unsafe.String(&r.text[0], len(r.text))) { //nolint:gosec // which is only read
		if v = r.fields(text, n, as); v != Taken {
			return 0, v
		}
		r.again = true
	}
	return r.finish(text, n+r.length)
}

// Forget drops what refers to the text that the request was read from. What has been copied stays.
func (r *Request) Forget() {
	r.Method, r.Target, r.Body = "", "", ""
	if len(r.text) == 0 {
		r.values, r.sent = [count]string{}, 0
	}
}

// fields reads the lines from n on. They are read from a copy, to which the values then belong, unless they are long, or
// those of the first request: for many clients that is the only one on a connection.
func (r *Request) fields(text string, n int, as framing) Verdict {
	rest, kept := text[n:], r.text[:0]
	if end := strings.Index(rest, "\r\n\r\n"); r.again && end >= 0 && end <= maxRepeated {
		kept = append(kept, rest[:end+len("\r\n\r\n")]...)
		rest = unsafe.String(&kept[0], len(kept)) //nolint:gosec // which is written when the next lines are read
	}
	r.lines = lines{Close: as.minor == 0, Size: len("Cache-Control" + "no-cache"), text: kept[:0], framed: as} // which net/http adds for a Pragma
	for at := 0; ; {
		end, ok := lineEnd(rest[at:])
		switch {
		case !ok:
			return incomplete(text, n+at)
		case end == 0:
			r.text, r.length = kept, at+len("\r\n")
			return Taken
		case !r.field(rest[at : at+end]):
			return Odd
		}
		at += end + len("\r\n")
	}
}

// incomplete is the verdict on a text whose last line, which begins at n, has no end. A
// line that ends otherwise than by CRLF has none.
func incomplete(text string, n int) Verdict {
	if len(text) > MaxHead || strings.IndexByte(text[n:], '\n') >= 0 {
		return Odd
	}
	return Short
}

// lineEnd is where the CRLF of the first line is.
func lineEnd(text string) (end int, ok bool) {
	lf := strings.IndexByte(text, '\n')
	return lf - 1, lf > 0 && text[lf-1] == '\r'
}

// line reads the first line, and says where the next one begins.
func (r *Request) line(text string) (n int, v Verdict) {
	end, ok := lineEnd(text)
	if !ok {
		return 0, incomplete(text, 0)
	}
	line := text[:end]
	const version = " HTTP/1."
	at := len(line) - len(version) - 1
	if at < 0 || line[at:len(line)-1] != version || line[len(line)-1] != '0' && line[len(line)-1] != '1' {
		return 0, Odd
	}
	r.Minor = int(line[len(line)-1] - '0')
	method, target, _ := strings.Cut(line[:at], " ")
	if method != http.MethodGet && method != http.MethodHead && method != http.MethodPost || !isTarget(target) {
		return 0, Odd
	}
	r.Method, r.Target = method, target
	return end + len("\r\n"), Taken
}

// isTarget knows targets in origin form. Escapes are whole in the path, which net/http decodes.
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

// field reads a line of the head.
func (r *Request) field(line string) bool {
	colon := 0
	for colon < len(line) && tokens[line[colon]] {
		colon++
	}
	if colon == 0 || colon == len(line) || line[colon] != ':' {
		return false
	}
	value := trim(line[colon+1:])
	if !isValue(value) {
		return false
	}
	h, known := find(line[:colon])
	if !known || h != Host {
		r.Size += colon + len(value)
	}
	return !known || r.set(h, value)
}

// set notes a header that has a row. It fails where the request is net/http's.
func (r *Request) set(h Header, value string) bool {
	if r.sent&(1<<h) != 0 || table[h].use == barred && (h != ContentEncoding || r.Method == http.MethodPost) {
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
		return r.connection(value)
	}
	return true
}

// connection reads what becomes of the connection: an upgrade is none without a header
// of that name, which is barred.
func (r *Request) connection(value string) bool {
	switch {
	case isWord(value, "close"):
		r.Close = true
		return true
	case r.Minor == 0:
		return false
	}
	return isWord(value, "keep-alive") || isWord(value, "upgrade")
}

// isWord compares without case, of ASCII alone.
func isWord(value, word string) bool { return len(value) == len(word) && equalFold(value, word) }

// finish reads the body, once the head has ended.
func (r *Request) finish(text string, n int) (int, Verdict) {
	length, ok := r.bodyLength()
	switch {
	case !ok, n > MaxHead, r.sent&(1<<Host) == 0:
		return 0, Odd
	case len(text) < n+length:
		return 0, Short
	}
	r.Body, r.own.from, r.own.to = text[n:n+length], 0, 0
	return n + length, Taken
}

// bodyLength is that of the body.
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

// namesStream reports whether a value of Accept may name the media type of streams, which
// are no answers of the lane. Beyond ASCII there are letters that are others in lower case.
func namesStream(value string) bool {
	const name = "event-stream"
	for i := range len(value) {
		switch {
		case value[i] >= 0x80:
			return true
		case value[i]|0x20 == 'e' && len(value)-i >= len(name) && equalFold(value[i:], name):
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

// trim takes the blanks and tabs around a value off.
func trim(value string) string {
	for value != "" && (value[0] == ' ' || value[0] == '\t') {
		value = value[1:]
	}
	for value != "" && (value[len(value)-1] == ' ' || value[len(value)-1] == '\t') {
		value = value[:len(value)-1]
	}
	return value
}

// isValue knows values without control bytes. It looks at eight bytes at a time, and one by one where
// one of these may be such.
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

// tokens are the bytes of which names are made (RFC 9110).
var tokens = func() (is [256]bool) {
	for _, c := range []byte("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ") {
		is[c] = true
	}
	return is
}()
