package grpc

import (
	"context"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/node"
)

// Settings are the operator's settings of gRPC, with their keys in the section grpc.
type Settings struct {
	WebMetadata []string `yaml:"web_metadata" doc:"Names of the nodes' metadata that gRPC-Web passes to clients, in addition to x-cosmos-* and *-bin. All other metadata is dropped."`
}

// Options configure a Handler. Posting is required.
type Options struct {
	Settings
	State   state.Options                                                  // how values of the state are read
	Stream  func(ctx context.Context, method string) (*node.Stream, error) // opens a stream to a node; nil without a node's gRPC
	Posting *blocks.Posting                                                // shared with the other interfaces
}

// Handler answers gRPC methods. It owns no goroutine.
type Handler struct {
	o       Options
	reader  *blocks.Reader
	values  *state.Values
	never   *blocks.Kind // of calls that are not cached
	streams *limits.Places

	reflection *reflection // unused if no node offers gRPC

	life context.Context //nolint:containedctx // for streams; ends with Drain
	end  context.CancelFunc
}

// New returns a handler. No other interface may use the reader.
func New(o Options, r *blocks.Reader) *Handler {
	live := r.Add(&blocks.Kind{Name: "grpc live", Class: blocks.Live})
	found := r.Add(&blocks.Kind{Name: "grpc found", Class: blocks.Found})
	d := &Handler{
		o: o, reader: r, values: state.New(o.State, r, live, found, state.GRPC),
		never:   r.Add(&blocks.Kind{Name: "grpc never", Class: blocks.Never}),
		streams: r.Stack.Admission.NewPlaces("hold a stream"),
	}
	d.life, d.end = context.WithCancel(context.Background())
	d.reflection = &reflection{life: d.life, open: o.Stream}
	return d
}

// Drain ends all streams with UNAVAILABLE, so that clients reconnect elsewhere.
func (d *Handler) Drain() { d.end() }

type method struct {
	route  string                                                              // name in metrics, where names chosen by clients must not appear
	unary  func(k *call, message []byte, hs web.Heights) (size int, err error) // nil if the call is forwarded as a stream
	inLane bool                                                                // the lane may answer repeated calls
}

// The kinds of methods. Values of the state are cached per block, transactions and data of fixed blocks forever once
// found. All other calls are forwarded, including methods of a service named Query that may stream.
var (
	valueMethod     = method{"grpc state", (*call).value, true}
	foundMethod     = method{"grpc tx", (*call).found, true}
	serviceMethod   = method{"grpc service", (*call).service, false}
	broadcastMethod = method{"grpc broadcast", (*call).broadcast, false}
	streamMethod    = method{route: "grpc stream"}
)

// services matches services whose methods are unary and are also available by the RPC.
var services = regexp.MustCompile(`^/cosmos\.(tx|base\.tendermint|base\.node)\.[a-z0-9]+\.Service/`)

const broadcastTx = "/cosmos.tx.v1beta1.Service/BroadcastTx"

func (d *Handler) methodOf(name string) method {
	switch {
	case d.o.State.ReadsState(name) && d.isUnary(name):
		return valueMethod
	case d.o.State.Rows[name].Class.Fixed():
		return foundMethod
	case !services.MatchString(name) && !d.o.State.Passes(name):
		return streamMethod
	case name == broadcastTx:
		return broadcastMethod
	default:
		return serviceMethod
	}
}

// serve answers the call, whose headers are in from. The error is a gRPC status.
func (k *call) serve(from *web.Request) error {
	if strings.HasPrefix(k.name, healthService) {
		return k.serveHealth(from)
	}
	if k.o.State.ReadsState(k.name) && !k.isUnary(k.name) {
		k.reflection.update(k.name)
	}
	m := k.methodOf(k.name)
	k.from = from
	k.from.Record = record.Record{Route: m.route, Start: k.start, Sampling: k.sampling}
	if k.laneCall != nil {
		k.from.Record.LaneSlot = k.laneCall
	}
	err := k.reader.Stack.Call(k.from, func(from *web.Request) (int, error) {
		if err := k.reader.AdmitCall(from); err != nil {
			return 0, err
		}
		if !state.IsMethod(k.name) {
			k.st = status.Newf(codes.Unimplemented, "malformed method name: %q", web.Short(k.name))
			return 0, nil
		}
		if err := k.reader.Stack.AdmitOperation(from, k.operation()); err != nil {
			return 0, err
		}
		if s, ok := k.stream.(*webStream); ok {
			s.receive()
		}
		if m.unary == nil {
			return k.pass()
		}
		return k.serveUnary(m.unary)
	})
	if err != nil {
		return k.statusOf(err)
	}
	return k.st.Err()
}

// codeOf maps HTTP statuses of failures to gRPC codes. Others are Internal.
var codeOf = map[int]codes.Code{
	http.StatusBadRequest:                  codes.InvalidArgument,
	http.StatusUnauthorized:                codes.Unauthenticated,
	http.StatusForbidden:                   codes.PermissionDenied,
	http.StatusNotFound:                    codes.NotFound,
	http.StatusRequestEntityTooLarge:       codes.ResourceExhausted,
	http.StatusRequestURITooLong:           codes.ResourceExhausted,
	http.StatusTooManyRequests:             codes.ResourceExhausted,
	http.StatusRequestHeaderFieldsTooLarge: codes.ResourceExhausted,
	http.StatusNotImplemented:              codes.Unimplemented,
	http.StatusBadGateway:                  codes.Unavailable,
	http.StatusServiceUnavailable:          codes.Unavailable,
	http.StatusGatewayTimeout:              codes.Unavailable,
}

// statusOf returns the status of a failed call. The trailers say when to retry, in the form that gRPC clients
// understand.
func (k *call) statusOf(err error) error {
	if cause := k.stream.Context().Err(); cause != nil {
		return status.FromContextError(cause).Err()
	}
	f := failure.Of(err)
	code, known := codeOf[f.Status]
	switch {
	case upstream.MayHaveRun(err): // clients repeat a call that is UNAVAILABLE
		code = codes.Unknown
	case errors.Is(err, account.ErrFull) || errors.Is(err, account.ErrShare):
		code = codes.ResourceExhausted
	case !known:
		code = codes.Internal
	}
	text := f.Public
	if said := upstream.SaidBy(err, upstream.GRPC); said != nil && !upstream.MayHaveRun(err) {
		code, text = codes.Code(said.Code), said.Text //nolint:gosec // it is a gRPC code
	}
	md := metadata.MD{}
	for name, values := range k.from.ResponseHeader {
		md[strings.ToLower(name)] = values
	}
	if f.RetryAfter > 0 {
		md["grpc-retry-pushback-ms"] = []string{strconv.FormatInt(f.RetryAfter.Milliseconds(), 10)}
	}
	k.stream.SetTrailer(md)
	return status.Error(code, text)
}
