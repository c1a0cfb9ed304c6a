package grpc_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"slices"
	"testing"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	google "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/upstream/expect"
)

// withMemory gives a cache so many bytes, of which half can be reserved.
func withMemory(bytes int64) func(*setup) { return func(s *setup) { s.cache.MemoryBytes = bytes } }

func framed(flag byte, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(message))), message...)
}

func zeros(t testing.TB, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(make([]byte, n)); err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestMessagesBeyondFreeMemoryAreRefused(t *testing.T) {
	t.Parallel()
	const free = 4 << 20
	for name, tt := range map[string]struct {
		path    string
		size    int
		options []google.CallOption
		want    codes.Code
	}{
		"a message of a value":               {params, free + 1, nil, codes.ResourceExhausted},
		"one that inflates to too much":      {params, free + 1, []google.CallOption{google.UseCompressor("gzip")}, codes.ResourceExhausted},
		"a message of a stream":              {"/x.Y/Stream", free + 1, nil, codes.ResourceExhausted},
		"a message that fits":                {"/x.Y/Stream", free / 4, nil, codes.OK},
		"one that inflates to what fits":     {"/x.Y/Stream", free / 4, []google.CallOption{google.UseCompressor("gzip")}, codes.OK},
		"a message beyond any memory":        {params, largestMessage + 1, nil, codes.ResourceExhausted},
		"one that inflates beyond any limit": {params, largestMessage + 1, []google.CallOption{google.UseCompressor("gzip")}, codes.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newRecordedNode(t)
			n.answer(func(s google.ServerStream) error {
				var none []byte
				return s.SendMsg(&none)
			})
			d := open(t, n, true, withMemory(2*free))
			message, reply := make([]byte, tt.size), []byte(nil)
			err := d.dial(t).Invoke(t.Context(), tt.path, &message, &reply, tt.options...)
			if status.Code(err) != tt.want {
				t.Errorf("status = %v, want %v", err, tt.want)
			}
			expect.Eventually(t, "all memory is released", func() bool { return d.cache.Account().Used() == 0 })
		})
	}
}

func TestCallsThatInflateShareOneBudget(t *testing.T) {
	t.Parallel()
	const calls = 100
	d := open(t, newRecordedNode(t), true, withMemory(8<<20))
	r := d.raw(t, "127.0.0.1")
	r.ReadMetaHeaders = hpack.NewDecoder(4096, nil)
	r.encoding = "gzip"
	bomb := framed(1, zeros(t, largestMessage-64))
	_ = r.WriteWindowUpdate(0, 1<<20)
	go func() {
		for range calls {
			if r.WriteData(r.begin(), true, bomb) != nil {
				return
			}
		}
	}()
	for ended := 0; ended < calls; {
		r.until("a status", func(f http2.Frame) bool {
			h, ok := f.(*http2.MetaHeadersFrame)
			if ok && h.StreamEnded() && !slices.Contains(h.Fields, hpack.HeaderField{Name: "grpc-status", Value: "8"}) {
				t.Errorf("a call ended with %v, want grpc-status 8", h.Fields)
			}
			return ok && h.StreamEnded()
		})
		ended++
		if used := d.cache.Account().Used(); used > d.cache.Account().Limit() {
			t.Errorf("%d bytes are reserved, want at most %d", used, d.cache.Account().Limit())
		}
	}
}

// A client that announces 10 MiB has no window for more than is read and reserved.
func TestMessageIsReadInPieces(t *testing.T) {
	t.Parallel()
	d := open(t, newRecordedNode(t), true)
	r := d.raw(t, "127.0.0.1")
	stream := r.begin()
	head := binary.BigEndian.AppendUint32([]byte{0}, 10<<20)
	expect.NoError(t, r.WriteData(stream, false, head))
	const sent = 3 * 16 << 10
	for range 3 {
		expect.NoError(t, r.WriteData(stream, false, make([]byte, 16<<10)))
	}
	granted := uint32(0)
	r.until("the window for what is read", func(f http2.Frame) bool {
		if w, ok := f.(*http2.WindowUpdateFrame); ok && w.StreamID == stream {
			granted += w.Increment
		}
		return granted >= sent
	})
	if granted > sent+uint32(len(head)) {
		t.Errorf("the client is granted %d bytes after it sent %d", granted, sent)
	}
	if used := d.cache.Account().Used(); used < sent || used > 1<<20 {
		t.Errorf("%d bytes are reserved for %d, want as many and less than 1 MiB", used, sent)
	}
}

// What follows the only message of a call is dropped while the call waits: the library would hold it.
func TestBytesAfterTheMessageAreDropped(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	d := open(t, n, true)
	t.Cleanup(n.hold(params))
	r := d.raw(t, "127.0.0.1")
	stream := r.begin()
	expect.NoError(t, r.WriteData(stream, false, framed(0, nil)))
	expect.Eventually(t, "the node is asked", func() bool { return n.times("gRPC "+params) > 0 })
	const sent = 3 * 16 << 10
	for range 3 {
		expect.NoError(t, r.WriteData(stream, false, make([]byte, 16<<10)))
	}
	granted := uint32(0)
	r.until("the window for what is dropped", func(f http2.Frame) bool {
		if w, ok := f.(*http2.WindowUpdateFrame); ok && w.StreamID == stream {
			granted += w.Increment
		}
		return granted >= sent
	})
}
