package grpc_test

import (
	"io"
	"log/slog"
	"net"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	google "google.golang.org/grpc"

	"github.com/tipcache/tipcache/upstream/node"
)

// BenchmarkHit compares a hit, with the log on, with a bare handler of grpc-go that answers with
// the same bytes. The client writes frames by hand, which costs little beside the server; CPU is
// that of both.
func BenchmarkHit(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		reply := make([]byte, 100)
		server := google.NewServer(google.ForceServerCodecV2(node.Bytes{}), google.UnknownServiceHandler(func(_ any, s google.ServerStream) error {
			var message []byte
			if err := s.RecvMsg(&message); err != nil {
				return err
			}
			return s.SendMsg(&reply)
		}))
		l, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		go func() { _ = server.Serve(l) }()
		defer server.Stop()
		measure(b, &servers{addr: l.Addr().String()})
	})
	b.Run("handler", func(b *testing.B) {
		measure(b, open(b, newRecordedNode(b), true, func(s *setup) {
			s.web.AccessLog, s.web.Logger = io.Discard, slog.New(slog.NewTextHandler(io.Discard, nil))
		}))
	})
}

// measure makes calls on a connection, up to 64 at a time.
func measure(b *testing.B, d *servers) {
	r := d.raw(b, "127.0.0.1")
	_ = r.SetDeadline(time.Time{})
	answered := make(chan int, 1<<16)
	go func() {
		defer close(answered)
		for {
			f, err := r.ReadFrame()
			if err != nil {
				return
			}
			if h, ok := f.(*http2.HeadersFrame); ok && h.StreamEnded() {
				answered <- 1
			}
		}
	}()
	_ = r.WriteSettingsAck()
	_ = r.WriteWindowUpdate(0, 1<<30)
	call := func() {
		if err := r.WriteData(r.begin(), true, make([]byte, 5)); err != nil {
			b.Fatal(err)
		}
	}
	call()
	<-answered
	before, flying := cpu(), 0
	for b.Loop() {
		if flying == 64 {
			<-answered
			flying--
		}
		call()
		flying++
	}
	for range flying {
		<-answered
	}
	b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
}

// cpu is what this process has used, in nanoseconds.
func cpu() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}
