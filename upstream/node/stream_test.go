package node

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
)

// streamFrom returns a stream to a server that answers with serve.
func streamFrom(ctx context.Context, t *testing.T, a *account.Account, maxBody int64, serve func(w http.ResponseWriter, r *http.Request)) *Stream {
	t.Helper()
	s := grpcClientTo(t, a, maxBody, serve).stream(metadata.AppendToOutgoingContext(ctx, heightKey, "7"), "/a.Service/Follow")
	t.Cleanup(s.Close)
	return s
}

// grpcClientTo returns a client of a server that answers with serve.
func grpcClientTo(t *testing.T, a *account.Account, maxBody int64, serve func(w http.ResponseWriter, r *http.Request)) *grpcClient {
	t.Helper()
	n := httptest.NewUnstartedServer(http.HandlerFunc(serve))
	n.Config.Protocols = new(http.Protocols)
	n.Config.Protocols.SetUnencryptedHTTP2(true)
	n.Start()
	t.Cleanup(n.Close)
	o := Options{Memory: a.Upstream()}.WithDefaults()
	o.maxBody = maxBody
	c := expect.Value(newGRPCClient("node", Endpoint{GRPC: n.Listener.Addr().String(), Headers: http.Header{"X-Api-Key": {"secret"}}}, o))(t)
	t.Cleanup(c.close)
	return c
}

func TestStreamEndsWhenItsNodeIsRemoved(t *testing.T) {
	t.Parallel()
	reset := make(chan struct{})
	c := grpcClientTo(t, account.New(8<<20, nil), 1<<20, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", grpcType)
		_ = http.NewResponseController(w).Flush()
		stall(w, r)
		close(reset)
	})
	s := c.stream(t.Context(), "/a.Service/Follow")
	defer s.Close()
	if s.Header() == nil {
		t.Fatal("Header = nil, want the node's headers")
	}
	c.close()
	if _, err := s.Receive(); status.Code(err) != codes.Unavailable {
		t.Errorf("Receive = %v, want %v", err, codes.Unavailable)
	}
	<-reset
}

// frameOf returns the prefix of a message with a length.
func frameOf(flag byte, size int) []byte {
	return binary.BigEndian.AppendUint32([]byte{flag}, uint32(size)) //nolint:gosec // test sizes fit
}

func TestMessageOfAStreamIsReservedWhileItArrives(t *testing.T) {
	t.Parallel()
	const size = 1 << 20
	a := account.New(8<<20, nil)
	resume := make(chan struct{})
	s := streamFrom(t.Context(), t, a, 4<<20, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", grpcType)
		_, _ = w.Write(append(frameOf(0, size), make([]byte, size/2)...))
		_ = http.NewResponseController(w).Flush()
		<-resume
		_, _ = w.Write(make([]byte, size/2))
		w.Header().Set(http.TrailerPrefix+"Grpc-Status", "0")
	})
	received := make(chan error, 1)
	var message []byte
	go func() {
		var err error
		message, err = s.Receive()
		received <- err
	}()
	expect.EventuallyAtLeast(t, "half of the message is reserved", a.Used, size/2)
	close(resume)
	if err := <-received; err != nil || len(message) != size || a.Used() < size {
		t.Errorf("Receive = %d bytes, %v, with %d reserved; want %d, nil and at least as many", len(message), err, a.Used(), size)
	}
	if _, err := s.Receive(); !errors.Is(err, io.EOF) || a.Used() != 0 {
		t.Errorf("Receive = %v at the end, with %d bytes reserved, want EOF and 0", err, a.Used())
	}
}

func TestStreamForwardsItsDeadline(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		timeout time.Duration
		unit    byte
	}{"in milliseconds": {time.Hour, 'm'}, "in seconds if there are too many digits": {1000 * time.Hour, 'S'}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), tt.timeout)
			defer cancel()
			sent := make(chan string, 1)
			streamFrom(ctx, t, account.New(8<<20, nil), 1<<20, func(_ http.ResponseWriter, r *http.Request) {
				sent <- r.Header.Get("Grpc-Timeout")
			})
			got := <-sent
			units := map[byte]string{'m': "ms", 'S': "s"}
			left, err := time.ParseDuration(got[:len(got)-1] + units[got[len(got)-1]])
			if err != nil || got[len(got)-1] != tt.unit || len(got) > 9 || left > tt.timeout+timeoutSlack || left < tt.timeout-30*time.Minute {
				t.Errorf("grpc-timeout = %q, want about %v in %c, at most eight digits", got, tt.timeout, tt.unit)
			}
		})
	}
}

func TestStreamForwardsItsTrace(t *testing.T) {
	t.Parallel()
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}}))
	sent := make(chan string, 1)
	streamFrom(ctx, t, account.New(8<<20, nil), 1<<20, func(_ http.ResponseWriter, r *http.Request) {
		sent <- r.Header.Get("Traceparent")
	})
	if got, want := <-sent, "00-01000000000000000000000000000000-0200000000000000-00"; got != want {
		t.Errorf("traceparent = %q, want %q", got, want)
	}
}

func TestStreamEndsWithAStatus(t *testing.T) {
	t.Parallel()
	const free, maxBody = 3 << 20, 4 << 20 // the part for upstreams is three quarters of the account
	for name, tt := range map[string]struct {
		header map[string]string
		status int
		frame  []byte
		size   int
		code   codes.Code
		text   string
	}{
		"message without memory":               {frame: frameOf(0, free+1), size: free + 1, code: codes.ResourceExhausted, text: "the memory for messages of nodes is in use"},
		"message that inflates without memory": {frame: frameOf(1, 0), size: free + 1, code: codes.ResourceExhausted, text: "the memory for messages of nodes is in use"},
		"message that inflates within memory":  {frame: frameOf(1, 0), size: free / 4},
		"message above the limit":              {frame: frameOf(0, maxBody+1), size: 1, code: codes.ResourceExhausted, text: "grpc: received message larger than max (4194305 vs. 4194304)"},
		"truncated message":                    {frame: frameOf(0, 10), size: 5, code: codes.Unavailable, text: "the stream to the node was lost"},
		"unknown flag":                         {frame: frameOf(7, 3), size: 3, code: codes.Internal, text: "grpc: received unexpected payload format 7"},
		"truncated prefix":                     {frame: []byte{0}, code: codes.Unavailable, text: "the stream to the node was lost"},
		"status without messages":              {header: map[string]string{"Grpc-Status": "5", "Grpc-Message": "not%20found"}, code: codes.NotFound, text: "not found"},
		"status with the node's key":           {header: map[string]string{"Grpc-Status": "16", "Grpc-Message": "key secret has expired", "X-Echo": "secret"}, code: codes.Unauthenticated, text: "key *** has expired"},
		"HTML page":                            {header: map[string]string{"Content-Type": "text/html"}, code: codes.Unknown, text: `unexpected response of the node's gRPC server: HTTP status 200, type "text/html"`},
		"HTTP status 503":                      {status: http.StatusServiceUnavailable, code: codes.Unavailable, text: `unexpected response of the node's gRPC server: HTTP status 503, type "application/grpc"`},
		"no status":                            {header: map[string]string{"X-Own": "1"}, code: codes.Internal, text: "the node ended the stream without a status"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := account.New(free/3*4, nil)
			s := streamFrom(t.Context(), t, a, maxBody, func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/a.Service/Follow" || r.Header.Get("X-Api-Key") != "secret" || r.Header.Get(heightKey) != "7" {
					t.Errorf("request = %s with headers %v, want the method, the key of the node and the height", r.URL.Path, r.Header)
				}
				w.Header().Set("Content-Type", grpcType)
				for name, value := range tt.header {
					w.Header().Set(name, value)
				}
				if tt.status != 0 {
					w.WriteHeader(tt.status)
				}
				body := make([]byte, tt.size)
				if len(tt.frame) > 0 && tt.frame[0] == 1 {
					w.Header().Set("Grpc-Encoding", "gzip")
					body = gzipped(t, string(body))
					tt.frame = frameOf(1, len(body))
				}
				_, _ = w.Write(append(tt.frame, body...))
			})
			message, err := s.Receive()
			if st := status.Convert(err); st.Code() != tt.code || st.Message() != tt.text || err == nil && len(message) != tt.size {
				t.Errorf("Receive = %d bytes, %v; want %v: %s", len(message), err, tt.code, tt.text)
			}
			if echo := s.Trailer().Get("x-echo"); len(echo) > 0 && echo[0] != "***" {
				t.Errorf("metadata = %q, want the node's key redacted", echo)
			}
			if s.Close(); a.Used() != 0 {
				t.Errorf("Used = %d after Close, want 0", a.Used())
			}
		})
	}
}
