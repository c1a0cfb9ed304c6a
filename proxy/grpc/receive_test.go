package grpc_test

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
	google "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/upstream/expect"
)

// withMemory sets the memory of the cache in bytes. Requests can reserve half of it.
func withMemory(bytes int64) func(*setup) { return func(s *setup) { s.cache.MemoryBytes = bytes } }

// framed returns the frame of a message. A flag of 1 means that the message is compressed.
func framed(flag byte, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(message))), message...)
}

// gzipZeros returns n zero bytes, compressed.
func gzipZeros(t testing.TB, n int) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	expect.Value(z.Write(make([]byte, n)))(t)
	expect.NoError(t, z.Close())
	return b.Bytes()
}

func TestMessagesBeyondFreeMemoryAreRefused(t *testing.T) {
	t.Parallel()
	const free = 4 << 20
	compressed := []google.CallOption{google.UseCompressor("gzip")}
	for name, tt := range map[string]struct {
		path    string
		size    int
		options []google.CallOption
		want    codes.Code
	}{
		"message of a unary call":             {params, free + 1, nil, codes.ResourceExhausted},
		"compressed message of a unary call":  {params, free + 1, compressed, codes.ResourceExhausted},
		"message of a stream":                 {"/x.Y/Stream", free + 1, nil, codes.ResourceExhausted},
		"message that fits":                   {"/x.Y/Stream", free / 4, nil, codes.OK},
		"compressed message that fits":        {"/x.Y/Stream", free / 4, compressed, codes.OK},
		"message beyond the limit":            {params, largestMessage + 1, nil, codes.ResourceExhausted},
		"compressed message beyond the limit": {params, largestMessage + 1, compressed, codes.ResourceExhausted},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newRecordedNode(t)
			n.setService(func(s google.ServerStream) error { return s.SendMsg(new([]byte)) })
			d := open(t, n, true, withMemory(2*free))
			message, reply := make([]byte, tt.size), []byte(nil)
			err := d.dial(t).Invoke(t.Context(), tt.path, &message, &reply, tt.options...)
			if status.Code(err) != tt.want {
				t.Errorf("status = %v, want %v", err, tt.want)
			}
			expect.EventuallyEqual(t, "all memory is released", d.cache.Account().Used, 0)
		})
	}
}

func TestCallsThatInflateShareOneBudget(t *testing.T) {
	t.Parallel()
	const calls = 100
	d := open(t, newRecordedNode(t), true, withMemory(8<<20))
	r := d.dialRaw(t, "127.0.0.1")
	r.encoding = "gzip"
	bomb := framed(1, gzipZeros(t, largestMessage-64))
	_ = r.WriteWindowUpdate(0, 1<<20)
	go func() {
		for range calls {
			if r.WriteData(r.startCall(), true, bomb) != nil {
				return
			}
		}
	}()
	for range calls {
		r.readUntil("the end of a call", func(f http2.Frame) bool {
			h, ok := f.(*http2.MetaHeadersFrame)
			if ok && h.StreamEnded() && !slices.Contains(h.Fields, hpack.HeaderField{Name: "grpc-status", Value: "8"}) {
				t.Errorf("a call ended with %v, want grpc-status 8", h.Fields)
			}
			return ok && h.StreamEnded()
		})
		if used := d.cache.Account().Used(); used > d.cache.Account().Limit() {
			t.Errorf("reserved bytes = %d, want at most %d", used, d.cache.Account().Limit())
		}
	}
}

// sendPieces sends zeros on a stream, and waits until the server has granted as many bytes again. It returns both
// numbers.
func (r *rawClient) sendPieces(stream uint32) (sent, granted uint32) {
	r.Helper()
	const piece = 16 << 10
	for ; sent < 3*piece; sent += piece {
		expect.NoError(r.TB, r.WriteData(stream, false, make([]byte, piece)))
	}
	r.readUntil("window updates for the pieces", func(f http2.Frame) bool {
		if w, ok := f.(*http2.WindowUpdateFrame); ok && w.StreamID == stream {
			granted += w.Increment
		}
		return granted >= sent
	})
	return sent, granted
}

// The window of a client that announces 10 MiB grows only by what the server has read and reserved.
func TestMessageIsReadInPieces(t *testing.T) {
	t.Parallel()
	d := open(t, newRecordedNode(t), true)
	r := d.dialRaw(t, "127.0.0.1")
	stream := r.startCall()
	head := binary.BigEndian.AppendUint32([]byte{0}, 10<<20)
	expect.NoError(t, r.WriteData(stream, false, head))
	sent, granted := r.sendPieces(stream)
	if most := sent + uint32(len(head)); granted > most {
		t.Errorf("granted bytes = %d, want at most %d", granted, most)
	}
	if used := d.cache.Account().Used(); used < int64(sent) || used > 1<<20 {
		t.Errorf("reserved bytes = %d, want at least %d and at most 1 MiB", used, sent)
	}
}

// The library would hold the bytes after the only message of a unary call.
func TestBytesAfterTheMessageAreDropped(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	d := open(t, n, true)
	n.hold(t, params)
	r := d.dialRaw(t, "127.0.0.1")
	stream := r.startCall()
	expect.NoError(t, r.WriteData(stream, false, framed(0, nil)))
	expect.EventuallyAtLeast(t, "the node gets the request", func() int { return n.requests("gRPC " + params) }, 1)
	r.sendPieces(stream)
}

// The first call of a connection reserves nothing for its stream.
func TestCompressedMessageReservesLittleBeforeItArrives(t *testing.T) {
	t.Parallel()
	const sent = 8 << 10
	d := open(t, newRecordedNode(t), true)
	r := d.dialRaw(t, "127.0.0.1")
	r.encoding = "gzip"
	head := binary.BigEndian.AppendUint32([]byte{1}, 1<<20)
	expect.NoError(t, r.WriteData(r.startCall(), false, append(head, make([]byte, sent)...)))
	expect.Eventually(t, "the sent bytes and few more are reserved", func() bool {
		used := d.cache.Account().Used()
		return used >= sent && used <= 2*sent
	})
}

func TestUnfinishedMessageOfAStreamEndsIt(t *testing.T) {
	t.Parallel()
	d := open(t, newRecordedNode(t), true, func(s *setup) { s.web.RequestTimeout = 50 * time.Millisecond })
	r := d.dialRaw(t, "127.0.0.1")
	r.path = "/x.Y/Stream"
	stream := r.startCall()
	message := framed(0, make([]byte, 4<<10))
	expect.NoError(t, r.WriteData(stream, false, message[:len(message)-1]))
	r.readStatus(stream, "4")
	expect.EventuallyEqual(t, "all memory is released", d.cache.Account().Used, 0)
}

// The client ends its half of the stream only, so it can receive the status.
func TestCallWhoseMessageBreaksOffEndsWithInternal(t *testing.T) {
	t.Parallel()
	d := open(t, newRecordedNode(t), true)
	for name, tt := range map[string]struct {
		flag byte
		size int
	}{
		"small": {0, 1 << 9}, "large": {0, 1 << 16}, "compressed": {1, 1 << 16},
	} {
		t.Run(name, func(t *testing.T) {
			r := d.dialRaw(t, "127.0.0.1")
			r.encoding = "gzip"
			stream := r.startCall()
			message := gzipZeros(t, tt.size)
			head := binary.BigEndian.AppendUint32([]byte{tt.flag}, uint32(tt.size))
			expect.NoError(t, r.WriteData(stream, true, append(head, message[:len(message)/2]...)))
			r.readUntil("grpc-status 13 with the text of the library", func(f http2.Frame) bool {
				h, ok := f.(*http2.MetaHeadersFrame)
				if ok && h.StreamEnded() {
					for _, want := range []hpack.HeaderField{{Name: "grpc-status", Value: "13"}, {Name: "grpc-message", Value: "unexpected EOF"}} {
						if !slices.Contains(h.Fields, want) {
							t.Errorf("%s message that breaks off: headers = %v, want %v", name, h.Fields, want)
						}
					}
				}
				return ok && h.StreamEnded()
			})
			expect.EventuallyEqual(t, "all memory is released", d.cache.Account().Used, 0)
		})
	}
}
