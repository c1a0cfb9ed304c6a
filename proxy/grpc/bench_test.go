package grpc_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/net/http2"
	google "google.golang.org/grpc"

	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// BenchmarkHit compares a hit, with the log on, in the lane and by the handler, with a bare server of grpc-go
// that has a registered method, which answers with constant bytes, and no option but a codec that leaves bytes
// as they are. The client writes frames by hand, which costs little beside the server; CPU is that of both.
func BenchmarkHit(b *testing.B) {
	b.Run("bare", func(b *testing.B) {
		reply := make([]byte, 100)
		answer := func(_ any, _ context.Context, receive func(any) error, _ google.UnaryServerInterceptor) (any, error) {
			var message []byte
			return &reply, receive(&message)
		}
		server := google.NewServer(google.ForceServerCodecV2(node.Bytes{}))
		service, method := path.Split(params)
		server.RegisterService(&google.ServiceDesc{ServiceName: strings.Trim(service, "/"), Methods: []google.MethodDesc{{MethodName: method, Handler: answer}}}, nil)
		l := expect.Value((&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0"))(b)
		go func() { _ = server.Serve(l) }()
		defer server.Stop()
		measure(b, &servers{addr: l.Addr().String()})
	})
	for name, change := range map[string]func(*setup){"lane": withLane, "handler": func(*setup) {}} {
		b.Run(name, func(b *testing.B) {
			measure(b, open(b, newRecordedNode(b), true, change, func(s *setup) {
				s.web.AccessLog, s.web.Logger = io.Discard, slog.New(slog.NewTextHandler(io.Discard, nil))
			}))
		})
	}
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
		expect.NoError(b, r.WriteData(r.begin(), true, make([]byte, 5)))
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
