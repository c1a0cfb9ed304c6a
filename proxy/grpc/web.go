package grpc

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/web"
)

// WebType is the media type of gRPC-Web calls, which are posted. A format such as +proto may follow.
const WebType = "application/grpc-web"

const textType = WebType + "-text" // with both bodies in base64

// IsWeb reports whether a Content-Type is one of gRPC-Web, in any letter case.
func IsWeb(contentType string) bool {
	return hasType(contentType, WebType) || hasType(contentType, textType)
}

// hasType reports whether a Content-Type is a media type, with a format or parameters after it or not.
func hasType(contentType, want string) bool {
	if end := strings.IndexAny(contentType, "+; \t"); end >= 0 {
		contentType = contentType[:end]
	}
	return strings.EqualFold(contentType, want)
}

// ServeWeb answers a gRPC-Web call.
func (d *Handler) ServeWeb(r *web.Request) {
	s := &webStream{w: r.Writer, conn: conn.Of(r.Request), header: metadata.MD{}, trailer: metadata.MD{}, most: d.o.Posting.MaxBody, typ: r.Header.Get("Content-Type")}
	s.text = hasType(s.typ, textType)
	ctx, cancel, err := withTimeout(r.Context(), r.Header.Get("Grpc-Timeout"))
	defer cancel()
	s.ctx = ctx
	if err == nil {
		k := &call{Handler: d, name: r.URL.Path, stream: s, start: time.Now()}
		defer k.release()
		s.receive = func() {
			k.held = k.hold()
			s.readBody(r.Request, k.held)
		}
		r.Request, r.ResponseHeader = r.WithContext(ctx), http.Header{} // which become metadata
		err = k.serve(r)
	}
	s.finish(status.Convert(err))
}

// exposedHeaders are the status headers that pages may read in addition to the metadata of a response.
const exposedHeaders = "Grpc-Status, Grpc-Message, Grpc-Status-Details-Bin, Grpc-Retry-Pushback-Ms"

// detailsKey is the metadata with the status as a google.rpc.Status, if it has details.
const detailsKey = "grpc-status-details-bin"

// frameHead is the number of bytes before a message: a flag and the length.
const frameHead = 5

// Flags of frames.
const (
	compressed = 1
	trailers   = 0x80
)

// units are the units of grpc-timeout.
var units = map[byte]time.Duration{'H': time.Hour, 'M': time.Minute, 'S': time.Second, 'm': time.Millisecond, 'u': time.Microsecond, 'n': 1}

// withTimeout applies the grpc-timeout of a client to a context; "" means none.
func withTimeout(ctx context.Context, timeout string) (context.Context, context.CancelFunc, error) {
	if timeout == "" {
		return ctx, func() {}, nil
	}
	n, err := strconv.ParseUint(timeout[:len(timeout)-1], 10, 32)
	unit := units[timeout[len(timeout)-1]]
	if err != nil || unit == 0 || len(timeout) > len("99999999S") {
		return ctx, func() {}, status.Errorf(codes.Internal, "malformed grpc-timeout: %q", web.Short(timeout))
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(min(int64(n), math.MaxInt64/int64(unit)))*unit)
	return ctx, cancel, nil
}

// webStream makes a gRPC-Web call a grpc.ServerStream. Only RecvMsg may be called concurrently with other methods.
type webStream struct {
	ctx             context.Context //nolint:containedctx // grpc.ServerStream has one
	conn            *conn.Conn      // nil if the connection was not accepted by our listener
	w               http.ResponseWriter
	typ             string
	most            int64  // maximum message, in bytes
	text            bool   // bodies are in base64
	receive         func() // reads the body once the client is admitted
	body            []byte
	held            *conn.RequestBody // memory of body
	refusal         error             // why the body could not be read
	header, trailer metadata.MD
	sent            int // number of messages

	// deadline returns when a message must be written, which is then flushed; nil for unary calls
	deadline func(start time.Time) time.Time
}

// LargestBody returns the maximum length of a body with a message of at most the given bytes: that of its base64, up to the limit
// for all bodies.
func LargestBody(message int64) int64 { return min((message+frameHead)/3*4+8, conn.LargestBody) }

func (s *webStream) readBody(r *http.Request, held *conn.RequestBody) {
	s.held = held
	s.body, s.refusal = held.ReadRequest(s.w, r, LargestBody(s.most))
	if s.refusal == nil && s.text {
		s.body, s.refusal = decodeText(s.body)
	}
	if large := new(http.MaxBytesError); errors.As(s.refusal, &large) {
		s.refusal = status.Errorf(codes.ResourceExhausted, "grpc: received message larger than max (%d)", s.most)
	}
}

// decodeText decodes concatenated base64 with padding, in place, because memory is reserved only for the text.
func decodeText(text []byte) (b []byte, err error) {
	b = text[:0]
	for len(text) > 0 {
		piece := text
		if i := bytes.IndexByte(text, '='); i >= 0 {
			piece = text[:min(len(text), (i/4+1)*4)]
		}
		if b, err = base64.StdEncoding.AppendDecode(b, piece); err != nil {
			return nil, status.Error(codes.Internal, "the body is not in base64")
		}
		text = text[len(piece):]
	}
	return b, nil
}

func (s *webStream) Context() context.Context { return s.ctx }

// SetHeader adds to the headers, which are sent with the first message.
func (s *webStream) SetHeader(md metadata.MD) error {
	s.header = metadata.Join(s.header, md)
	return nil
}

// SendHeader is SetHeader: headers are sent with the first message.
func (s *webStream) SendHeader(md metadata.MD) error { return s.SetHeader(md) }

// SetTrailer adds to the trailers.
func (s *webStream) SetTrailer(md metadata.MD) { s.trailer = metadata.Join(s.trailer, md) }

// RecvMsg returns the next message. After the last, it releases their memory and returns io.EOF.
func (s *webStream) RecvMsg(m any) error {
	message := m.(*[]byte) //nolint:forcetypeassert // all messages are of this type
	switch {
	case s.refusal != nil:
		return s.refusal
	case len(s.body) == 0:
		s.body = nil
		s.held.Release()
		return io.EOF
	case len(s.body) < frameHead || uint64(len(s.body)-frameHead) < uint64(binary.BigEndian.Uint32(s.body[1:])):
		return status.Error(codes.Internal, io.ErrUnexpectedEOF.Error())
	case s.body[0] > compressed: // such as trailers, which are no message
		return unexpectedFormat(s.body[0])
	case s.body[0] == compressed:
		return status.Error(codes.Internal, "grpc: compressed flag set with identity or empty encoding")
	}
	size := frameHead + int(binary.BigEndian.Uint32(s.body[1:]))
	if int64(size-frameHead) > s.most {
		return status.Errorf(codes.ResourceExhausted, "grpc: received message larger than max (%d vs. %d)", size-frameHead, s.most)
	}
	*message, s.body = s.body[frameHead:size], s.body[size:]
	return nil
}

func (s *webStream) SendMsg(m any) error {
	if s.sent++; s.sent == 1 {
		s.writeHeader(s.header)
	}
	s.setDeadline()
	err := s.write(0, *m.(*[]byte)) //nolint:forcetypeassert // all messages are of this type
	if err == nil && s.deadline != nil {
		control := http.NewResponseController(s.w)
		err = control.Flush()
		_ = control.SetWriteDeadline(time.Time{}) // HTTP/2 would reset an idle stream at the deadline
	}
	return err
}

// outlast lets a stream outlast the timeouts of the HTTP server. Each message must be written until deadline instead.
func (s *webStream) outlast(deadline func(start time.Time) time.Time) {
	s.deadline = deadline
	control := http.NewResponseController(s.w)
	_ = control.SetReadDeadline(time.Time{}) // fails only in tests
	_ = control.SetWriteDeadline(time.Time{})
}

// setDeadline begins the write of a message or of the status.
func (s *webStream) setDeadline() {
	if s.deadline != nil {
		_ = http.NewResponseController(s.w).SetWriteDeadline(s.deadline(time.Now()))
	}
}

func (s *webStream) writeHeader(more ...metadata.MD) {
	h := s.w.Header()
	md := metadata.Join(more...)
	names := slices.Sorted(maps.Keys(md))
	for _, name := range names {
		h.Del(name)
		for _, value := range md[name] {
			h.Add(name, encoded(name, value))
		}
	}
	if exposed := h["Access-Control-Expose-Headers"]; exposed != nil {
		h["Access-Control-Expose-Headers"] = append(exposed, strings.Join(append(names, exposedHeaders), ", "))
	}
	h.Set("Content-Type", s.typ)
	h.Set("Cache-Control", "no-store")
	s.w.WriteHeader(http.StatusOK)
}

// write writes a frame. The connection counts a long message until the client has received it.
func (s *webStream) write(flag byte, message []byte) (err error) {
	if s.conn != nil && len(message) > conn.MaxUncounted {
		s.conn.BeginBody(message)
		defer s.conn.EndBody(message)
	}
	var to io.Writer = s.w
	if s.text {
		encoder := base64.NewEncoder(base64.StdEncoding, s.w)
		defer func() { err = errors.Join(err, encoder.Close()) }()
		to = encoder
	}
	if _, err = to.Write(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(message)))); err == nil { //nolint:gosec // no node sends 4 GiB
		_, err = to.Write(message)
	}
	return err
}

// finish sends the status: in a frame after messages, otherwise in the headers.
func (s *webStream) finish(st *status.Status) {
	md := metadata.Pairs("grpc-status", strconv.Itoa(int(st.Code())))
	if st.Message() != "" {
		md.Set("grpc-message", escape(st.Message()))
	}
	if p := st.Proto(); len(p.GetDetails()) > 0 {
		if details, err := proto.Marshal(p); err == nil {
			s.trailer.Set(detailsKey, string(details)) // replaces the node's trailer, as in gRPC servers
		}
	}
	md = metadata.Join(md, s.trailer)
	s.setDeadline()
	if s.sent == 0 {
		s.writeHeader(s.header, md)
		return
	}
	var lines bytes.Buffer
	for name, values := range md {
		for _, value := range values {
			_, _ = fmt.Fprintf(&lines, "%s: %s\r\n", name, encoded(name, value))
		}
	}
	_ = s.write(trailers, lines.Bytes()) // fails only if the client has disconnected
}

// escape percent-encodes a status message, except for printable ASCII.
func escape(text string) string {
	var b strings.Builder
	for i := range len(text) {
		if c := text[i]; c < ' ' || c > '~' || c == '%' {
			_, _ = fmt.Fprintf(&b, "%%%02X", c)
		} else {
			_ = b.WriteByte(c)
		}
	}
	return b.String()
}
