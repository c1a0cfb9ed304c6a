package redis

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream/expect"
)

// FuzzDecodeEntry decodes arbitrary values. The decoder must reject them as corrupt or return an entry that encodes to
// an equal one.
func FuzzDecodeEntry(f *testing.F) {
	c := newCodec(nil)
	for _, content := range []*cache.Content{
		cache.NewContent(200, "application/json", "</next>", []byte(strings.Repeat("body ", 100)), 7),
		cache.NewContent(404, "", "", nil, 0),
	} {
		e := &cache.Entry{Content: content, Height: 100, ReadAt: time.UnixMicro(1), Expires: time.UnixMicro(2)}
		f.Add(c.encodeMeta("k", e), c.encodeBody(e.Body))
	}
	f.Add([]byte("2 1 1 1 \"\" 200 0 0\n"), []byte("p"))
	f.Add([]byte("2 future"), []byte{})
	f.Fuzz(func(t *testing.T, m, b []byte) {
		e, err := c.decode("k", string(m), string(b), nil)
		if err != nil {
			if !errors.Is(err, errCorrupt) {
				t.Fatalf("error = %v, want errCorrupt", err)
			}
			return
		}
		again, err := c.decode("k", string(c.encodeMeta("k", e)), string(c.encodeBody(e.Body)), nil)
		if err != nil {
			t.Fatalf("decoding the encoded entry: %v", err)
		}
		if again.ETag != e.ETag || again.Height != e.Height || !again.ReadAt.Equal(e.ReadAt) ||
			!again.Expires.Equal(e.Expires) || again.Source != e.Source || !bytes.Equal(again.Body, e.Body) {
			t.Fatalf("decoded again = %+v, want %+v", again, e)
		}
	})
}

func TestDecodeRejectsCorruptEntries(t *testing.T) {
	c := newCodec(nil)
	for name, tt := range map[string]struct {
		strings string
		status  int
		want    error
	}{
		"a valid entry":              {"\x00\x00", 200, nil},
		"missing strings":            {"", 200, errCorrupt},
		"a truncated string":         {"\x05abc", 200, errCorrupt},
		"a length of too many bytes": {"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 200, errCorrupt},
		"a status without content":   {"\x00\x00", 204, errCorrupt},
	} {
		content := cache.NewContent(tt.status, "", "", []byte("x"), 7)
		m := fmt.Sprintf("2 100 1 2 %s %d 7 0\n%s", content.ETag, tt.status, tt.strings)
		_, err := c.decode("k", m, string(c.encodeBody(content.Body)), nil)
		expect.ErrorIs(t, err, tt.want, "decode of %s", name)
	}
}

func TestDecodeLimitsBody(t *testing.T) {
	c := newCodec(nil)
	bomb := c.encodeBody(make([]byte, maxBody+1))
	if len(bomb) > 1<<20 {
		t.Fatalf("compressed body has %d bytes, want at most 1 MiB", len(bomb))
	}
	_, err := c.decodeBody(string(bomb))
	expect.ErrorIs(t, err, errCorrupt, "decodeBody")
}

func TestDecodeSharesKnownContent(t *testing.T) {
	c := newCodec(nil)
	have := entryAt(100)
	got, err := c.decode("k", string(c.encodeMeta("k", have.Confirm(101, time.UnixMicro(2)))), "", have)
	if err != nil || got.Content != have.Content || got.Height != 101 {
		t.Errorf("decode = %+v, %v; want the same content at 101", got, err)
	}
}

// renewalLog records the renewals of a message.
type renewalLog struct {
	nopSubscriber
	renewals []cache.Renewal
}

func (l *renewalLog) Renewed(_ string, r cache.Renewal) { l.renewals = append(l.renewals, r) }

// renewalOf returns a renewal as writeScript publishes it, without its mark.
func renewalOf(key string, meta, body []byte) string {
	return fmt.Sprintf("%d %d %d %s%s%s", len(key), len(meta), len(body), key, meta, body)
}

// FuzzRenewal decodes arbitrary messages. An entry of a renewal must have the ETag and height of the renewal, and the
// renewals together must not be larger than the message.
func FuzzRenewal(f *testing.F) {
	s := &Store{codec: newCodec(nil), o: Options{}.WithDefaults()}
	if err := s.register(nil); err != nil {
		f.Fatal(err)
	}
	e := &cache.Entry{Content: cache.NewContent(200, "text/plain", "", []byte("body"), 0), Height: 100, ReadAt: time.UnixMicro(1)}
	m, b := s.codec.encodeMeta("tipcache:2:{n:k}", e), s.codec.encodeBody(e.Body)
	whole := renewalOf("k", m, b)
	f.Add(whole)
	f.Add(whole + "1 1 0 k+" + renewalOf("k", m, nil))
	f.Add(whole + "1 9 0 k")
	f.Add("18446744073709551615 2 1 k")
	f.Fuzz(func(t *testing.T, message string) {
		var log renewalLog
		s.handleRenewals("n", message, &log)
		size := 0
		for _, r := range log.renewals {
			size += r.Size
			for _, have := range []*cache.Entry{nil, e} {
				if read := r.Read(have); read != nil && (read.ETag != r.ETag || read.Height != r.Height) {
					t.Fatalf("%q decodes to %q at %d, want %q at %d", message, read.ETag, read.Height, r.ETag, r.Height)
				}
			}
		}
		if size > len(message) {
			t.Fatalf("size of the renewals of %q = %d, want at most %d", message, size, len(message))
		}
	})
}
