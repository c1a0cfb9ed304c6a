package node

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	spb "google.golang.org/genproto/googleapis/rpc/status"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
)

// grpcType is the media type of gRPC. A format such as +proto may follow.
const grpcType = "application/grpc"

func streamTransport(dial time.Duration) *http.Transport {
	t := &http.Transport{
		Proxy:               tlsProxy,
		DialContext:         (&net.Dialer{Timeout: dial}).DialContext,
		TLSHandshakeTimeout: dial,
		IdleConnTimeout:     time.Minute,
		DisableCompression:  true,
		Protocols:           new(http.Protocols),
		HTTP2: &http.HTTP2Config{
			MaxReceiveBufferPerStream: streamWindow, MaxReceiveBufferPerConnection: 1 << 30, // a slow stream does not stop others
			SendPingTimeout: pings.Time, PingTimeout: pings.Timeout,
		},
	}
	t.Protocols.SetHTTP2(true)
	t.Protocols.SetUnencryptedHTTP2(true)
	return t
}

// tlsProxy returns the proxy for requests by TLS. A proxy for plain HTTP does not forward HTTP/2.
func tlsProxy(r *http.Request) (*url.URL, error) {
	if r.URL.Scheme != "https" {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}

// A Stream is a gRPC stream to a node. It reserves memory for a message as its bytes arrive. It does not use grpc-go, which
// reads a whole message before it reveals its size. One goroutine may send while another receives.
type Stream struct {
	ctx      context.Context //nolint:containedctx // of Stream
	cancel   context.CancelFunc
	send     *io.PipeWriter
	held     *account.Hold // memory of the message received last
	maxBody  int64
	hide     *strings.Replacer
	opened   chan struct{} // closed once response or err is set
	response *http.Response
	err      error
}

func (c *grpcClient) stream(ctx context.Context, method string) *Stream {
	within, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.life, cancel)
	body, send := io.Pipe()
	context.AfterFunc(within, func() {
		stop()
		_ = body.CloseWithError(context.Canceled) // http.Transport may wait for more of it
	})
	to := *c.base
	to.Path = method
	r := (&http.Request{Method: http.MethodPost, URL: &to, Header: http.Header{}, Body: body, ContentLength: -1}).WithContext(within)
	if md, ok := metadata.FromOutgoingContext(ctx); ok {
		for name, values := range md {
			r.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	maps.Copy(r.Header, c.headers)
	upstream.PassTrace(ctx, r.Header)
	for name, value := range map[string]string{"Content-Type": grpcType, "Te": "trailers", "Grpc-Accept-Encoding": "gzip", "User-Agent": "tipcache"} {
		r.Header.Set(name, value)
	}
	if due, ok := ctx.Deadline(); ok {
		r.Header.Set("Grpc-Timeout", encodeTimeout(time.Until(due)+timeoutSlack))
	}
	streams := c.current.Load().streams
	s := &Stream{ctx: ctx, cancel: cancel, send: send, held: c.memory.Open("", true), maxBody: c.maxBody, hide: c.hide, opened: make(chan struct{})}
	go func() { // ends with the context at the latest
		defer close(s.opened)
		s.response, s.err = streams.RoundTrip(r) //nolint:bodyclose // Close does
	}()
	return s
}

// timeoutSlack makes the deadline of the node later than that of this process, which then ends the stream with the right
// status. A node resets a stream at its deadline, often without a status.
const timeoutSlack = 10 * time.Millisecond

// encodeTimeout returns the value of the header grpc-timeout, which has at most eight digits.
func encodeTimeout(d time.Duration) string {
	if ms := max(d.Milliseconds(), 1); ms < 100_000_000 {
		return strconv.FormatInt(ms, 10) + "m"
	}
	return strconv.FormatInt(min(int64(d/time.Second), 99_999_999), 10) + "S"
}

// Close ends the stream and releases its memory. It must not be called during Receive.
func (s *Stream) Close() {
	s.cancel()
	s.held.Close()
	_ = s.send.Close()
	if <-s.opened; s.err == nil {
		_ = s.response.Body.Close()
	}
}

// CloseSend ends the client's side of the stream.
func (s *Stream) CloseSend() error { return s.send.Close() }

// Send sends a message. It returns once the message was written.
func (s *Stream) Send(message []byte) error {
	head := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(message))) //nolint:gosec // no message has 4 GiB
	for _, part := range [][]byte{head, message} {
		if _, err := s.send.Write(part); err != nil {
			return io.EOF // Receive returns the reason
		}
	}
	return nil
}

// Receive receives a message and reserves its memory until the next call or Close. It returns io.EOF at the end of a
// successful stream, and the status otherwise.
func (s *Stream) Receive() ([]byte, error) {
	s.held.Close()
	if <-s.opened; s.err != nil {
		return nil, s.lost()
	}
	if err := checkGRPC(s.response); err != nil {
		return nil, err
	}
	var head [5]byte
	if _, err := io.ReadFull(s.response.Body, head[:]); errors.Is(err, io.EOF) {
		return nil, s.end()
	} else if err != nil {
		return nil, s.lost()
	}
	if head[0] > 1 {
		return nil, status.Errorf(codes.Internal, "grpc: received unexpected payload format %d", head[0])
	}
	body := &io.LimitedReader{R: s.response.Body, N: int64(binary.BigEndian.Uint32(head[1:]))}
	if body.N > s.maxBody {
		return nil, status.Errorf(codes.ResourceExhausted, tooLarge+" (%d vs. %d)", body.N, s.maxBody)
	}
	message, err := s.read(body, head[0] == 1)
	switch {
	case errors.Is(err, account.ErrFull):
		return nil, status.Error(codes.ResourceExhausted, "the memory for messages of nodes is in use")
	case err != nil:
		return nil, s.lost()
	case int64(len(message)) > s.maxBody:
		return nil, status.Errorf(codes.ResourceExhausted, "grpc: received message after decompression larger than max %d", s.maxBody)
	}
	return message, nil
}

// inflateCost is the memory to decompress a message, in addition to the message.
const inflateCost = 64 << 10

// read reads a message and decompresses it if needed. If the result exceeds maxBody, it returns the first maxBody+1 bytes.
func (s *Stream) read(body *io.LimitedReader, compressed bool) (message []byte, err error) {
	if !compressed {
		message, err = s.held.ReadAll(body, body.N)
	} else if err = s.held.Take(inflateCost); err == nil {
		z := &inflated{compressed: io.NopCloser(body)}
		defer func() { _ = z.Close() }()
		message, err = s.held.ReadAll(io.LimitReader(z, s.maxBody+1), s.maxBody+1)
	}
	if err == nil && body.N > 0 && int64(len(message)) <= s.maxBody { // a message that is too large was not read to its end
		err = io.ErrUnexpectedEOF
	}
	return message, err
}

func (s *Stream) lost() error {
	if ended := s.ctx.Err(); ended != nil {
		return status.FromContextError(ended).Err()
	}
	return status.Error(codes.Unavailable, "the stream to the node was lost") // an error of the dialer contains the address
}

// checkGRPC returns the status for a response that is not gRPC, such as an HTML page, or nil.
func checkGRPC(r *http.Response) error {
	if r.StatusCode == http.StatusOK && strings.HasPrefix(r.Header.Get("Content-Type"), grpcType) {
		return nil
	}
	code := codes.Unknown
	switch r.StatusCode {
	case http.StatusUnauthorized:
		code = codes.Unauthenticated
	case http.StatusForbidden:
		code = codes.PermissionDenied
	case http.StatusNotFound:
		code = codes.Unimplemented
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		code = codes.Unavailable
	}
	return status.Errorf(code, "unexpected response of the node's gRPC server: HTTP status %d, type %.80q", r.StatusCode, r.Header.Get("Content-Type"))
}

// isBare reports whether a response consists of trailers alone, which HTTP sends as headers.
func isBare(r *http.Response) bool { return r.Header.Get("Grpc-Status") != "" }

func (s *Stream) end() error {
	last := s.response.Trailer
	if isBare(s.response) {
		last = s.response.Header
	}
	code, err := strconv.ParseUint(last.Get("Grpc-Status"), 10, 32)
	if err != nil {
		return status.Error(codes.Internal, "the node ended the stream without a status")
	}
	text := last.Get("Grpc-Message")
	if plain, err := url.PathUnescape(text); err == nil {
		text = plain
	}
	st, full := status.New(codes.Code(code), s.hide.Replace(text)), new(spb.Status)
	if details := s.metadataOf(last).Get("grpc-status-details-bin"); len(details) == 1 && proto.Unmarshal([]byte(details[0]), full) == nil && full.GetCode() == int32(st.Code()) { //nolint:gosec // a code has 32 bits
		st = status.FromProto(full)
	}
	if st.Code() == codes.OK {
		return io.EOF
	}
	return st.Err()
}

// Header waits for the node's headers and returns them. It returns nil if the stream was lost, or if there are only trailers.
func (s *Stream) Header() metadata.MD {
	if <-s.opened; s.err != nil || isBare(s.response) {
		return nil
	}
	return s.metadataOf(s.response.Header)
}

// Trailer returns the node's trailers after Receive has returned an error.
func (s *Stream) Trailer() metadata.MD {
	<-s.opened
	switch {
	case s.err != nil:
		return nil
	case isBare(s.response):
		return s.metadataOf(s.response.Header)
	default:
		return s.metadataOf(s.response.Trailer)
	}
}

// reserved are headers of responses that are not metadata.
var reserved = []string{"grpc-encoding", "grpc-message", "grpc-status", "grpc-message-type"}

// metadataOf returns headers as metadata, without the secrets of the node's headers. It leaves out binary values that are not
// in base64.
func (s *Stream) metadataOf(h http.Header) metadata.MD {
	md := metadata.MD{}
	for name, values := range h {
		name = strings.ToLower(name)
		for _, value := range values {
			if strings.HasSuffix(name, "-bin") {
				decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(value, "="))
				if err != nil {
					continue
				}
				value = string(decoded)
			}
			if !slices.Contains(reserved, name) {
				md.Append(name, s.hide.Replace(value))
			}
		}
	}
	return md
}
