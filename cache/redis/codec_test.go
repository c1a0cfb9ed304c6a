package redis

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
)

// FuzzDecodeEntry feeds the decoder what any program might have stored. It must
// refuse it as corrupt or give an entry that encodes to something equal.
func FuzzDecodeEntry(f *testing.F) {
	c := newCodec(nil)
	for _, content := range []*cache.Content{
		cache.NewContent(200, "application/json", "</next>", []byte(strings.Repeat("body ", 100)), 7),
		cache.NewContent(404, "", "", nil, 0),
	} {
		e := &cache.Entry{Content: content, Height: 100, ReadAt: time.UnixMicro(1), Expires: time.UnixMicro(2)}
		f.Add(c.encodeMeta("k", e), c.encodeBody(e.Body))
	}
	f.Add([]byte("1 1 1 1 \"\" 200 0\n"), []byte("p"))
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
			t.Fatalf("re-encoded %+v = %+v", e, again)
		}
	})
}

func TestDecodeRejectsCorruptEntries(t *testing.T) {
	c := newCodec(nil)
	tests := []struct {
		what, strings string
		status        int
		corrupt       bool
	}{
		{"an entry", "\x00\x00", 200, false},
		{"one whose strings are missing", "", 200, true},
		{"one whose string is cut", "\x05abc", 200, true},
		{"a length of too many bytes", "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", 200, true},
		{"a status that has no content", "\x00\x00", 204, true},
	}
	for _, test := range tests {
		content := cache.NewContent(test.status, "", "", []byte("x"), 7)
		m := fmt.Sprintf("1 100 1 2 %s %d 7\n%s", content.ETag, test.status, test.strings)
		if _, err := c.decode("k", m, string(c.encodeBody(content.Body)), nil); errors.Is(err, errCorrupt) != test.corrupt {
			t.Errorf("%s: %v", test.what, err)
		}
	}
}

func TestDecodeLimitsBody(t *testing.T) {
	c := newCodec(nil)
	bomb := c.encodeBody(make([]byte, maxBody+1))
	if len(bomb) > 1<<20 {
		t.Fatalf("compressed body has %d bytes, want few", len(bomb))
	}
	if _, err := c.decodeBody(string(bomb)); !errors.Is(err, errCorrupt) {
		t.Errorf("error %v, want errCorrupt", err)
	}
}

func TestDecodeSharesKnownContent(t *testing.T) {
	c := newCodec(nil)
	have := &cache.Entry{Content: cache.NewContent(200, "text/plain", "", []byte("x"), 1), Height: 100, ReadAt: time.UnixMicro(1)}
	got, err := c.decode("k", string(c.encodeMeta("k", have.Confirm(101, time.UnixMicro(2)))), "", have)
	if err != nil || got.Content != have.Content || got.Height != 101 {
		t.Errorf("got %+v, %v; want the same content at 101", got, err)
	}
}

// renewalsSeen keeps what a message was read as.
type renewalsSeen struct {
	purges
	made []cache.Renewal
}

func (r *renewalsSeen) Renewed(_ string, made cache.Renewal) { r.made = append(r.made, made) }

// FuzzRenewal feeds what any program might publish. What is made of it are entries with the
// content that it names, which hold no more than it says, or none.
func FuzzRenewal(f *testing.F) {
	s := &Store{codec: newCodec(nil), o: Options{}.WithDefaults()}
	if err := s.register(nil); err != nil {
		f.Fatal(err)
	}
	e := &cache.Entry{Content: cache.NewContent(200, "text/plain", "", []byte("body"), 0), Height: 100, ReadAt: time.UnixMicro(1)}
	m, b := s.codec.encodeMeta("tipcache:1:{n:k}", e), s.codec.encodeBody(e.Body)
	whole := renewalOf("k", m, b)[1:]
	f.Add(whole)
	f.Add(whole + "1 1 0 k+" + renewalOf("k", m, nil)[1:])
	f.Add(whole + "1 9 0 k")
	f.Add("18446744073709551615 2 1 k")
	f.Fuzz(func(t *testing.T, message string) {
		var got renewalsSeen
		s.handleRenewals("n", message, &got)
		size := 0
		for _, r := range got.made {
			size += r.Size
			for _, have := range []*cache.Entry{nil, e} {
				if read := r.Read(have); read != nil && (read.ETag != r.ETag || read.Height != r.Height) {
					t.Fatalf("%q decodes to %q at %d", message, read.ETag, read.Height)
				}
			}
		}
		if size > len(message) {
			t.Fatalf("%q decodes to renewals of %d bytes", message, size)
		}
	})
}
