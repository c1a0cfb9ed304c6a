package grpc

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	_ "google.golang.org/grpc/encoding/gzip" // some clients compress their messages
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/grpc/tap"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

// window is the number of bytes that a client may send for a call before the call reads them, the smallest that
// the library supports.
const window = 64 << 10

// workers is the number of goroutines with grown stacks that calls share. Further calls use a goroutine of their
// own.
const workers = 64

// pings allows clients to ping every ten seconds, the shortest interval of their libraries.
var pings = keepalive.EnforcementPolicy{MinTime: 8 * time.Second, PermitWithoutStream: true}

// NewServer returns a server for a [conn.Listener]. A connection must send its preface within header,
// and is closed after idle without calls.
func (d *Handler) NewServer(header, idle time.Duration) *grpc.Server {
	return grpc.NewServer(
		grpc.ForceServerCodecV2(node.Bytes{}), grpc.UnknownServiceHandler(d.handle), grpc.Creds(accepted{insecure.NewCredentials()}),
		grpc.NumStreamWorkers(workers), grpc.InTapHandle(tapped), grpc.StaticStreamWindowSize(window), grpc.StaticConnWindowSize(window),
		grpc.MaxHeaderListSize(4*web.MaxHeader), grpc.MaxConcurrentStreams(conn.MaxStreams),
		grpc.KeepaliveEnforcementPolicy(pings), grpc.ConnectionTimeout(header), grpc.WaitForHandlers(true),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: idle, Time: time.Minute, Timeout: 20 * time.Second}),
	)
}

// callContext is the context of a call, with its metadata and its connection.
type callContext struct {
	context.Context                 //nolint:containedctx // embedded to add values
	metadata        metadata.MD     // from the client; must not be changed
	on              *connection     // nil if the connection was not accepted by our listener
	stream          conn.CallStream // in use if hasStream
	isRefused       bool            // there is no memory for the call
}

type callKey struct{}

// Value returns the callContext and the connection for their keys.
func (c *callContext) Value(key any) any {
	if _, ok := key.(callKey); ok {
		return c
	}
	if conn.IsKey(key) && c.on != nil {
		return c.on.conn
	}
	return c.Context.Value(key)
}

// hasStream reports whether stream is in use: the call is on a connection of our listener.
func (c *callContext) hasStream() bool { return c != nil && c.on != nil && c.on.conn != nil }

// errNoStream refuses a call that exceeds the memory budget.
var errNoStream = status.Error(codes.ResourceExhausted, "too many calls are open")

// tapped records the metadata of a call and its connection. It opens the call's stream before the library receives
// bytes of its message, and refuses the call if the memory budget is used up. handle refuses calls with a timeout,
// because the library does not cancel the context of a call that tapped refuses: its timer would hold the connection
// until the timeout, which can be centuries.
func tapped(ctx context.Context, info *tap.Info) (context.Context, error) {
	c := &callContext{Context: ctx, metadata: info.Header}
	if from, ok := peer.FromContext(ctx); ok {
		c.on, _ = from.AuthInfo.(*connection)
	}
	isWellFormed := strings.HasPrefix(info.FullMethodName, "/") && strings.LastIndexByte(info.FullMethodName, '/') > 0 // the library refuses others
	if c.hasStream() && isWellFormed && !c.on.conn.OpenCall(ctx, &c.stream, int64(conn.HeaderBytes(http.Header(info.Header))), window) {
		if _, hasTimeout := ctx.Deadline(); !hasTimeout {
			return nil, errNoStream
		}
		clear(info.Header) // so that a call whose refusal the client does not read uses little memory
		c.isRefused = true
	}
	return c, nil
}

// handle serves a call. The library does not recover panics.
func (d *Handler) handle(_ any, stream grpc.ServerStream) error {
	return d.guard(func() error { return d.serveStream(stream) })
}

// guard calls work, which handles input of a client. If work panics, guard returns a status.
func (d *Handler) guard(work func() error) error {
	err := upstream.Guard(d.reader.Stack.Logger(), "gRPC call", work)
	if errors.Is(err, upstream.ErrPanicked) {
		return status.Error(codes.Internal, "internal error")
	}
	return err
}

func (d *Handler) serveStream(stream grpc.ServerStream) error {
	k := &call{Handler: d, stream: stream, start: time.Now()}
	k.name, _ = grpc.MethodFromServerStream(stream)
	c, _ := stream.Context().Value(callKey{}).(*callContext)
	if c != nil && c.isRefused {
		return errNoStream
	}
	isOpen := c.hasStream() && c.stream.Begin() // false if the client has reset the stream, or the connection is not ours
	if isOpen {
		defer c.stream.End()
		k.sent.To = &c.stream
	}
	from, ok := grpc.ServerTransportStreamFromContext(stream.Context()).(transport)
	if !ok {
		return status.Error(codes.Internal, "the library's streams cannot be read in pieces")
	}
	k.receiver = receiver{from: from, most: d.o.Posting.MaxBody}
	if encoded := from.RecvCompress(); encoded != "" && encoded != encoding.Identity { // compressed responses could not be counted until they are written
		_ = grpc.SetSendCompressor(stream.Context(), encoding.Identity)
	}
	defer k.release()
	if isOpen && k.answerFromLane(c) {
		return nil
	}
	return k.serve(web.NewRequest(requestOf(stream.Context(), k.name)))
}

// accepted provides the credentials of connections whose TLS, if any, the listener has handled.
type accepted struct {
	credentials.TransportCredentials
}

// connection describes the connection of a call.
type connection struct {
	credentials.CommonAuthInfo
	conn   *conn.Conn // nil if it was not accepted by our listener
	remote string
}

func (*connection) AuthType() string { return "listener" }

// ServerHandshake returns the connection's description to its calls.
func (accepted) ServerHandshake(c net.Conn) (net.Conn, credentials.AuthInfo, error) {
	return c, &connection{conn: conn.Accepted(c), remote: c.RemoteAddr().String()}, nil
}

// headerKeys maps the metadata that the proxy reads to HTTP headers.
var headerKeys = []struct{ key, header string }{
	{heightKey, HeightHeader}, {"x-min-block-height", respond.MinHeightHeader}, {"x-api-key", limits.KeyHeader},
	{"x-forwarded-for", "X-Forwarded-For"}, {"x-request-id", respond.RequestIDHeader}, {"user-agent", "User-Agent"},
	{"traceparent", "Traceparent"}, {"tracestate", "Tracestate"},
}

// requestOf returns the HTTP request of a call, for limits, keys and records.
func requestOf(ctx context.Context, name string) *http.Request {
	r := http.Request{Method: http.MethodPost, URL: &url.URL{Path: name}, RequestURI: name, ProtoMajor: 2, Header: http.Header{}}
	if c, _ := ctx.Value(callKey{}).(*callContext); c != nil {
		for _, k := range headerKeys {
			if values := c.metadata[k.key]; values != nil {
				r.Header[k.header] = values[:len(values):len(values)]
			}
		}
		if c.on != nil {
			r.RemoteAddr = c.on.remote
		}
	}
	return r.WithContext(ctx)
}
