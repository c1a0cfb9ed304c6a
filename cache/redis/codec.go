package redis

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/codings"
)

// maxBody is the maximum size of a body in Redis, in bytes. Longer bodies are corrupt.
const maxBody = 64 << 20

// Limits of the bodies that are stored, in bytes. A longer body would delay the commands of other callers, which share
// its round trip, past Options.Timeout.
const (
	maxStored = 1 << 20 // as stored
	maxPlain  = 4 << 20 // before compression
)

// maxNumber limits heights and times to numbers that Lua represents exactly.
const maxNumber = 1 << 53

// minCompressed is the minimum size for compression, in bytes. Decompressing a smaller body takes longer than sending it.
const minCompressed = 2 << 10

// The first byte of a stored body says how the rest must be read.
const (
	plainBody = 'p'
	zstdBody  = 'z'
)

var errCorrupt = errors.New("redis: corrupt entry")

// A codec encodes and decodes the two fields of an entry. Field m is
//
//	2 <height> <read at> <expires> <etag> <status> <source> <provisional>\n<type><link>
//
// with times in microseconds, 0 for none, and provisional 1 or 0. It is text up to the newline, which the scripts parse. Type and link are
// prefixed by their lengths as uvarints. A signature may follow. Field b is the body, after a byte that names its
// compression.
type codec struct {
	sealer
	enc *zstd.Encoder
	dec *zstd.Decoder
}

func newCodec(key []byte) *codec {
	// Neither call can fail with these options, nor starts a goroutine as long
	// as only EncodeAll and DecodeAll are used.
	enc, _ := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithWindowSize(codings.Window), zstd.WithLowerEncoderMem(true))
	dec, _ := zstd.NewReader(nil, zstd.WithDecoderConcurrency(0), zstd.WithDecoderMaxMemory(maxBody))
	return &codec{sealer: key, enc: enc, dec: dec}
}

// version returns the beginning of an entry's m, which identifies its state.
func version(e *cache.Entry) []byte {
	return head{height: e.Height, readAt: e.ReadAt, expires: e.Expires, etag: e.ETag}.appendVersion(nil)
}

func (h head) appendVersion(to []byte) []byte {
	to = append(to, "2 "...)
	for _, n := range [...]int64{h.height, micros(h.readAt), micros(h.expires)} {
		to = append(strconv.AppendInt(to, n, 10), ' ')
	}
	return append(append(to, h.etag...), ' ')
}

// encodeMeta returns the m of an entry, whose Redis key is at.
func (c *codec) encodeMeta(at string, e *cache.Entry) []byte {
	provisional := 0
	if e.Provisional {
		provisional = 1
	}
	m := fmt.Appendf(version(e), "%d %d %d\n", e.Status, e.Source, provisional)
	for _, s := range []string{e.Type, e.Link} {
		m = binary.AppendUvarint(m, uint64(len(s)))
		m = append(m, s...)
	}
	return c.seal(at, m)
}

// encodeBody returns the b of a body, or nil if it is too long.
func (c *codec) encodeBody(body []byte) []byte {
	if len(body) > maxPlain {
		return nil
	}
	if len(body) >= minCompressed {
		if z := c.enc.EncodeAll(body, []byte{zstdBody}); len(z) <= min(len(body), maxStored) {
			return z
		}
	}
	if len(body) >= maxStored {
		return nil
	}
	return append([]byte{plainBody}, body...)
}

// decode decodes an entry, whose Redis key is at. If m names the content of have, which may be nil, it uses that content with
// its source, and ignores b. Otherwise the content must match the ETag in m, which also proves that m and b belong together. It
// returns an error for a corrupt entry.
func (c *codec) decode(at, m, b string, have *cache.Entry) (*cache.Entry, error) {
	m, err := c.open(at, m)
	if err != nil {
		return nil, err
	}
	h, rest, err := decodeHead(m)
	if err != nil {
		return nil, err
	}
	var buf [128]byte
	if as := h.appendVersion(buf[:0]); len(m) < len(as) || m[:len(as)] != string(as) {
		return nil, fmt.Errorf("%w: number is not in canonical form", errCorrupt)
	}
	e := &cache.Entry{Height: h.height, ReadAt: h.readAt, Expires: h.expires, Provisional: h.provisional}
	if have != nil && have.ETag == h.etag {
		e.Content = have.Content
		return e, nil
	}
	typ, rest, ok1 := cutString(rest)
	link, rest, ok2 := cutString(rest)
	if !ok1 || !ok2 || rest != "" {
		return nil, fmt.Errorf("%w: bad type or link", errCorrupt)
	}
	body, err := c.decodeBody(b)
	if err != nil {
		return nil, err
	}
	// Clone the strings, which are parts of m.
	if e.Content = cache.NewContent(h.status, strings.Clone(typ), strings.Clone(link), body, h.source); e.ETag != h.etag {
		return nil, fmt.Errorf("%w: content does not match its ETag", errCorrupt)
	}
	return e, nil
}

// A head is the first line of m.
type head struct {
	height          int64
	readAt, expires time.Time
	etag            string
	status          int
	source          uint64
	provisional     bool
}

// decodeHead parses the first line of m. A status that cannot have a body is corrupt.
func decodeHead(m string) (h head, rest string, err error) {
	line, rest, _ := strings.Cut(m, "\n")
	var field [8]string
	for i := range field {
		var more bool
		if field[i], line, more = strings.Cut(line, " "); more != (i < len(field)-1) {
			return h, "", fmt.Errorf("%w: bad head", errCorrupt)
		}
	}
	var n [5]uint64 // height, read at, expires, status, source
	for i, s := range [...]string{field[1], field[2], field[3], field[5], field[6]} {
		v, err := strconv.ParseUint(s, 10, 64)
		if err != nil || i < 4 && v > maxNumber {
			return h, "", fmt.Errorf("%w: bad number %q", errCorrupt, s)
		}
		n[i] = v
	}
	if status := n[3]; field[0] != "2" || status < 200 || status > 599 || status == http.StatusNoContent || status == http.StatusResetContent || status == http.StatusNotModified {
		return h, "", fmt.Errorf("%w: version %q, status %d", errCorrupt, field[0], status)
	}
	provisional, err := strconv.ParseBool(field[7])
	if err != nil {
		return h, "", fmt.Errorf("%w: bad mark of provisional entries %q", errCorrupt, field[7])
	}
	return head{int64(n[0]), fromMicros(n[1]), fromMicros(n[2]), field[4], int(n[3]), n[4], provisional}, rest, nil
}

func (c *codec) decodeBody(b string) ([]byte, error) {
	switch {
	case len(b) == 0 || len(b) > maxBody:
		return nil, fmt.Errorf("%w: body of %d bytes", errCorrupt, len(b))
	case b[0] == plainBody:
		return []byte(b[1:]), nil
	case b[0] == zstdBody:
		body, err := c.dec.DecodeAll([]byte(b[1:]), nil)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", errCorrupt, err)
		}
		return body, nil
	default:
		return nil, fmt.Errorf("%w: body begins with %q", errCorrupt, b[0])
	}
}

// cutString returns the string at the beginning of m.
func cutString(m string) (s, rest string, ok bool) {
	n, size := binary.Uvarint([]byte(m[:min(len(m), binary.MaxVarintLen64)]))
	if size <= 0 || n > uint64(len(m)-size) {
		return "", "", false
	}
	m = m[size:]
	return m[:n], m[n:], true
}

func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(us uint64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(int64(us))
}
