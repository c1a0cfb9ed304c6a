package node

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
	"github.com/tipcache/tipcache/upstream/porttest"
)

// waitForServer calls a method until a server responds. Unless mayFail, each call must succeed.
func waitForServer(t *testing.T, p *Pool, server *grpcNode, mayFail bool) {
	t.Helper()
	expect.Eventually(t, "an answer of the server that the name stands for now", func() bool {
		a, err := invoke(t, p, aMethod, AtTip)
		if err != nil && !mayFail {
			t.Errorf("Fetch = %v, want no failed call", err)
		}
		return err == nil && string(a.Body) == server.address
	})
}

func TestGRPCConnectionIsReplacedAtItsAge(t *testing.T) {
	t.Parallel()
	held := make(chan struct{})
	hold := grpc.StreamInterceptor(func(server any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		err := handle(server, s)
		if method, _ := grpc.MethodFromServerStream(s); method == "/a.Service/Follow" {
			<-held
		}
		return err
	})
	before, now := startGRPC(t, "127.0.0.1:0", "story-1", hold), startGRPC(t, "127.0.0.1:0", "story-1", hold)
	name := porttest.NewMoving(t, before.address)
	p := runGRPC(t, Options{maxAge: 50 * time.Millisecond}, name.Address)
	waitForGRPC(t, p, 0, "ok")
	open := func(server *grpcNode) *Stream {
		s := expect.Value(p.Stream(t.Context(), "/a.Service/Follow"))(t)
		t.Cleanup(s.Close)
		expect.NoError(t, s.Send(nil))
		if got, err := s.Receive(); err != nil || string(got) != server.address {
			t.Errorf("message = %q, %v; want %q", got, err, server.address)
		}
		return s
	}
	streams := []*Stream{open(before)}
	name.Move(now.address)
	waitForServer(t, p, now, false)
	streams = append(streams, open(now))
	close(held)
	for _, s := range streams {
		if _, err := s.Receive(); !errors.Is(err, io.EOF) {
			t.Errorf("Receive = %v at the end of a stream, want EOF", err)
		}
	}
}

func TestGRPCCallInProgressOutlivesItsConnection(t *testing.T) {
	t.Parallel()
	before, now := startGRPC(t, "127.0.0.1:0", "story-1"), startGRPC(t, "127.0.0.1:0", "story-1")
	gate := make(chan struct{})
	before.change(func() { before.gate = gate })
	name := porttest.NewMoving(t, before.address)
	p := runGRPC(t, Options{Settings: Settings{Timeout: time.Minute}, maxAge: 50 * time.Millisecond}, name.Address)
	waitForGRPC(t, p, 0, "ok")
	done := make(chan string, 1)
	go func() {
		a, err := invoke(t, p, aMethod, AtTip)
		if err != nil {
			a = &Answer{Body: []byte(err.Error())}
		}
		done <- string(a.Body)
	}()
	expect.EventuallyEqual(t, "a call in progress", func() int { return before.calls(aMethod) }, 1)
	before.change(func() { before.gate = nil }) // for other calls
	name.Move(now.address)
	waitForServer(t, p, now, false)
	close(gate)
	expect.Equal(t, <-done, before.address, "answer to the call in progress")
}

func TestOldGRPCConnectionRemainsInUseWithoutANewOne(t *testing.T) {
	t.Parallel()
	other := startGRPC(t, "127.0.0.1:0", "other-1")
	for what, server := range map[string]string{"an address without a server": porttest.Address(t), "a server of another chain": other.address} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			n := startGRPC(t, "127.0.0.1:0", "story-1")
			name := porttest.NewMoving(t, n.address)
			p := runGRPC(t, Options{maxAge: 20 * time.Millisecond}, name.Address)
			waitForGRPC(t, p, 0, "ok")
			name.Move(server)
			for connections := name.Accepted(); name.Accepted() < connections+3; {
				if a, err := invoke(t, p, aMethod, AtTip); err != nil || string(a.Body) != n.address {
					t.Fatalf("Fetch = %+v, %v; want the answer of %s", a, err, n.address)
				}
			}
		})
	}
}

func TestSilentGRPCServerIsReconnected(t *testing.T) {
	t.Parallel()
	var frozen atomic.Bool
	before := startGRPC(t, "127.0.0.1:0", "story-1", grpc.StreamInterceptor(func(server any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		if frozen.Load() {
			<-s.Context().Done()
		}
		return handle(server, s)
	}))
	now := startGRPC(t, "127.0.0.1:0", "story-1")
	name := porttest.NewMoving(t, before.address)
	p := runGRPC(t, Options{Settings: Settings{Timeout: 500 * time.Millisecond}}, name.Address)
	waitForGRPC(t, p, 0, "ok")
	frozen.Store(true)
	name.Move(now.address)
	waitForServer(t, p, now, true)
}

// refuseAbove makes a server refuse heights above the highest as a node does that does not have them yet.
func refuseAbove(highest string) grpc.ServerOption {
	return grpc.StreamInterceptor(func(server any, s grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
		if md, _ := metadata.FromIncomingContext(s.Context()); len(md.Get(heightKey)) > 0 && md.Get(heightKey)[0] > highest {
			return status.Error(codes.InvalidArgument, "cannot query with height in the future; please provide a valid height")
		}
		return handle(server, s)
	})
}

func TestGRPCServerBehindItsNodeIsReconnected(t *testing.T) {
	t.Parallel()
	before, now := startGRPC(t, "127.0.0.1:0", "story-1", refuseAbove("500")), startGRPC(t, "127.0.0.1:0", "story-1")
	name, rest := porttest.NewMoving(t, before.address), newFakeNode(t, 500)
	rest.grpc = name.Address
	p := run(t, Options{BlockInterval: time.Minute}, rest)
	wantTip(t, p, 500)
	waitForGRPC(t, p, 0, "ok")
	rest.commit(501)
	wantTip(t, p, 501)
	connections, start := name.Accepted(), time.Now()
	if _, err := invoke(t, p, aMethod, AtTip); err == nil || errors.Is(err, upstream.ErrBehind) {
		t.Errorf("Fetch = %v, want an error after which the caller asks the RPC", err)
	}
	waitForGRPC(t, p, 0, "is behind")
	if a, err := invoke(t, p, aMethod, 400); err != nil || string(a.Body) != before.address {
		t.Errorf("Fetch of an older height = %+v, %v; want the answer of %s", a, err, before.address)
	}
	expect.Eventually(t, "an attempt to reconnect", func() bool { return name.Accepted() > connections })
	for range 10 {
		_, _ = invoke(t, p, aMethod, AtTip)
	}
	if most := connections + 1 + int64(time.Since(start)/renewPause); name.Accepted() > most {
		t.Errorf("connections = %d, want at most %d", name.Accepted(), most)
	}
	name.Move(now.address)
	waitForServer(t, p, now, true)
	waitForGRPC(t, p, 0, "ok")
}

func TestGRPCServerThatHasPrunedAHeightIsNotReconnected(t *testing.T) {
	t.Parallel()
	n := startGRPC(t, "127.0.0.1:0", "story-1")
	name := porttest.NewMoving(t, n.address)
	p := runGRPC(t, Options{}, name.Address)
	waitForGRPC(t, p, 0, "ok")
	n.refuse(codes.Unknown, "codespace sdk code 18: invalid request: failed to load state at height 7; version does not exist", false)
	for range 5 {
		_, _ = invoke(t, p, aMethod, 7)
		time.Sleep(lagAfter / 2)
	}
	expect.Equal(t, name.Accepted(), 1, "connections")
	expect.Equal(t, p.Health()[0].GRPC, "ok", "state of gRPC")
}

func TestNameOfUnreachableGRPCServerIsResolvedAgain(t *testing.T) {
	t.Parallel()
	var log logtest.Log
	c := expect.Value(newGRPCClient("node", Endpoint{GRPC: porttest.Address(t)}, Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}.WithDefaults()))(t)
	defer c.close()
	ctx, cancel := context.WithCancel(t.Context())
	var works sync.WaitGroup
	defer works.Wait()
	defer cancel()
	works.Go(func() { c.follow(ctx, func(ctx context.Context) bool { return c.learn(ctx, 0, "") }) })
	works.Go(func() { c.renew(ctx, func() (int64, string) { return 0, "" }) })
	expect.Eventually(t, "two new connections, which resolve the name", func() bool { return log.Count("not replaced") >= 2 })
}

func TestPanicWhileAGRPCConnectionIsReplacedIsLogged(t *testing.T) {
	t.Parallel()
	log := new(logtest.Log)
	o := Options{Logger: slog.New(slog.NewTextHandler(log, nil))}.WithDefaults()
	c := expect.Value(newGRPCClient("node", Endpoint{GRPC: "127.0.0.1:1"}, o))(t)
	defer c.close()
	c.base = nil // makes replace panic
	c.reconnect()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		c.renew(ctx, func() (int64, string) { return 0, "" })
	}()
	expect.Eventually(t, "the panic in the log", func() bool { return log.Count("dropped an input whose handling panicked") > 0 })
	cancel()
	<-ended
}

// A server in front of a node may end a connection after some requests, as nginx does after keepalive_requests.
func TestCallsAndStreamsWaitForTheNextConnection(t *testing.T) {
	t.Parallel()
	var hold atomic.Pointer[chan struct{}]
	server := newHTTP2(t, func(w http.ResponseWriter, r *http.Request) {
		if held := hold.Load(); held != nil && r.URL.Path == nodeInfo {
			<-*held
		}
		_, _ = io.WriteString(w, chainMessage)
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	p := runGRPC(t, Options{}, server.Listener.Addr().String())
	waitForGRPC(t, p, 0, "ok")
	p.options.reconnect = time.Hour // only requests read it
	for name, send := range map[string]func() error{
		"call": func() error {
			_, err := invoke(t, p, aTx, AtTip)
			return err
		},
		"stream": func() error {
			s, err := p.Stream(t.Context(), "/a.Service/Follow")
			if err == nil {
				defer s.Close()
				_, err = s.Receive()
			}
			return err
		},
	} {
		held, sent := make(chan struct{}), make(chan error, 1)
		hold.Store(&held)
		server.CloseClientConnections()
		expect.Eventually(t, "a lost connection", func() bool { return p.Health()[0].GRPC != "ok" })
		go func() { sent <- send() }()
		select {
		case err := <-sent:
			t.Errorf("%s during a reconnect: %v, want it to wait", name, err)
			sent <- nil
		case <-time.After(50 * time.Millisecond):
		}
		close(held)
		if err := <-sent; err != nil {
			t.Errorf("%s after a reconnect: %v, want an answer", name, err)
		}
	}
}
