package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // for nodes that answer so
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/protofield"
)

// A grpcClient speaks with one node's gRPC server, once that has named our chain on the connection.
type grpcClient struct {
	conn    *grpc.ClientConn
	log     *slog.Logger
	outage  *upstream.Outage
	maxBody int64
	memory  *account.Part          // of answers; nil: no limit
	chain   atomic.Pointer[string] // that the server names; nil while it is not known
	problem atomic.Pointer[error]  // why it is not known; nil for nothing
}

// Pings are rarer than a node forbids. A connection on which none is acknowledged is given up.
var pings = keepalive.ClientParameters{Time: 6 * time.Minute, Timeout: 5 * time.Second}

// What a node can send before it is read: for a call or a stream the least that the library has, and for all
// of them together more than a connection has under way.
const (
	streamWindow = 64 << 10
	connWindow   = 16 << 20
)

func newGRPCClient(name, address string, o Options) (*grpcClient, error) {
	target, creds, err := parseTarget(address)
	if err != nil {
		return nil, err
	}
	retry := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, MaxDelay: 2 * breakerOpen}
	conn, err := grpc.NewClient(target,
		grpc.WithTransportCredentials(creds), grpc.WithKeepaliveParams(pings), grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0),
		grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: min(o.Timeout, maxDial)}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(Bytes{}), grpc.MaxCallSendMsgSize(MaxMessage)))
	if err != nil {
		return nil, errors.New("not an address of gRPC") // its error repeats the address
	}
	return &grpcClient{
		conn: conn, log: o.Logger.With("node", name), maxBody: o.MaxBody, memory: o.Memory, outage: upstream.NewOutage(o.Logger, "gRPC of node "+name),
	}, nil
}

// limit bounds the answer to a call by the memory that is free when the call begins.
func (c *grpcClient) limit() grpc.CallOption {
	return grpc.MaxCallRecvMsgSize(int(c.memory.Free(c.maxBody)))
}

// MaxMessage is the largest message in bytes that a node takes by gRPC by default.
const MaxMessage = 10 << 20

// parseTarget reads the address of a gRPC server: host:port, after http:// or, for TLS, https://.
func parseTarget(address string) (target string, creds credentials.TransportCredentials, err error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := url.Parse(strings.TrimRight(address, "/"))
	switch {
	case err != nil || u.Port() == "" || u.Hostname() == "" || u.Path != "" || u.RawQuery != "" || u.Fragment != "" || u.User != nil:
		return "", nil, errors.New("expected host:port, with http:// or, for TLS, https:// before it")
	case u.Scheme == "https":
		return u.Host, credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12}), nil
	case u.Scheme == "http" || u.Scheme == "tcp":
		return u.Host, insecure.NewCredentials(), nil
	default:
		return "", nil, fmt.Errorf("%s is no scheme of gRPC: expected http, or https for TLS", u.Scheme)
	}
}

// CheckTarget says what is wrong with the address of a gRPC server, nil for nothing.
func CheckTarget(address string) error {
	_, _, err := parseTarget(address)
	return err
}

// follow learns the server's chain on each connection, until ctx ends.
func (c *grpcClient) follow(ctx context.Context, learn func(context.Context) bool) {
	for ctx.Err() == nil {
		state := c.conn.GetState()
		switch state {
		case connectivity.Ready:
			if c.chain.Load() == nil && !learn(ctx) {
				_ = upstream.Sleep(ctx, probeFailure)
				continue
			}
		case connectivity.Idle:
			c.conn.Connect()
			c.chain.Store(nil)
		case connectivity.TransientFailure:
			c.chain.Store(nil)
			learn(ctx) // fails at once, with the reason why there is no connection
		default:
			c.chain.Store(nil)
		}
		c.conn.WaitForStateChange(ctx, state)
	}
}

// learn asks for the chain once, at a height: a node that has just started knows no newest one. ours
// is the chain that is expected, "" for any.
func (c *grpcClient) learn(ctx context.Context, height int64, ours string) bool {
	within, cancel := context.WithTimeout(ctx, probeEvery)
	defer cancel()
	chain, err := chainOf(at(within, height), c.conn)
	if ctx.Err() == nil {
		c.outage.Note(err)
	}
	if err != nil {
		c.problem.Store(&err)
		return false
	}
	if ours != "" && chain != ours {
		c.log.Error("gRPC server of a node serves another chain, not using it", "chain", chain, "expected", ours)
	}
	c.problem.Store(nil)
	c.chain.Store(&chain)
	return true
}

// heightKey is the metadata in which a height is asked for, and told.
const heightKey = "x-cosmos-block-height"

// at is a context in which a height is asked for, 0 for the newest.
func at(ctx context.Context, height int64) context.Context {
	if height <= 0 {
		return ctx
	}
	return metadata.AppendToOutgoingContext(ctx, heightKey, fmt.Sprint(height))
}

// chainOf asks a server for the name of its chain.
func chainOf(ctx context.Context, conn grpc.ClientConnInterface) (string, error) {
	var nothing, reply []byte
	if err := conn.Invoke(ctx, "/cosmos.base.tendermint.v1beta1.Service/GetNodeInfo", &nothing, &reply); err != nil {
		return "", err
	}
	info, _ := protofield.Bytes(reply, 1) // default_node_info
	if name, _ := protofield.Bytes(info, 4); len(name) > 0 {
		return string(name), nil
	}
	return "", errors.New("it does not name its chain")
}

// serves says whether the server is of a chain.
func (c *grpcClient) serves(chainID string) bool {
	chain := c.chain.Load()
	return chain != nil && *chain == chainID
}

// CheckGRPC asks a gRPC server for its chain.
func CheckGRPC(ctx context.Context, address string) (chainID string, err error) {
	c, err := newGRPCClient(address, address, Options{}.WithDefaults())
	if err != nil {
		return "", err
	}
	defer func() { _ = c.conn.Close() }()
	return chainOf(ctx, c.conn)
}

// An Invocation is a method of a node's gRPC that takes one message and answers with one. Its
// Answer has as Body the response, or the google.rpc.Status that says why there is none.
type Invocation struct {
	Method  string // with its service and the slash before that
	Message []byte
	Write   bool // it may change something: it is sent to one node, once
}

// The types of an Answer to an Invocation.
const (
	MessageType = "application/grpc"
	StatusType  = "application/x-protobuf; messageType=google.rpc.Status"                // of a method that has run, at the answer's height
	UnrunType   = "application/x-protobuf; messageType=google.rpc.Status; handler=unrun" // of one that has not
)

// invoke asks a node's gRPC once.
func (e *endpoint) invoke(ctx context.Context, r Request, height int64) (*Answer, error) {
	var header, trailer metadata.MD
	var reply []byte
	ctx = at(passTrace(ctx), r.told(height))
	err := e.grpc.conn.Invoke(ctx, r.Invoke.Method, &r.Invoke.Message, &reply, grpc.Header(&header), grpc.Trailer(&trailer), e.grpc.limit())
	told := heightOf(header)
	switch {
	case err == nil:
		return &Answer{Status: http.StatusOK, NodeStatus: http.StatusOK, Type: MessageType, Body: reply, Height: told}, nil
	case told == 0:
		if err := e.gatewayStatus(status.Convert(err), metadata.Join(header, trailer)); err != nil {
			return nil, err
		}
	}
	return refusedInvocation(status.Convert(err), told, r.told(height))
}

// passTrace has the trace of a context go on at the server.
func passTrace(ctx context.Context) context.Context {
	h := http.Header{}
	upstream.PassTrace(ctx, h)
	var pairs []string
	for name, values := range h {
		pairs = append(pairs, strings.ToLower(name), values[0])
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}

// heightOf is the height that the headers of an answer tell, 0 for none.
func heightOf(header metadata.MD) int64 {
	if said := header.Get(heightKey); len(said) > 0 {
		height, _ := strconv.ParseInt(said[0], 10, 64)
		return height
	}
	return 0
}

// tooLarge begins the text by which the client's library refuses a message.
const tooLarge = "grpc: received message larger than max"

// foreign begins the text of the client's library for an answer that is not one of gRPC, such as a page in HTML.
var foreign = regexp.MustCompile(`^(?:unexpected HTTP status code received from server|malformed header: missing HTTP content-type|transport: received unexpected content-type)`)

// gatewayStatus returns the error for a status without a height that no node gave, and nil for a node's. said is the
// metadata of the answer, which is empty where the client's library made the status for want of an answer.
func (e *endpoint) gatewayStatus(st *status.Status, said metadata.MD) error {
	_, known := classify(grpcUnrun, st.Message(), 0)
	switch code := st.Code(); {
	case foreign.MatchString(st.Message()):
	case code == codes.DeadlineExceeded:
		return upstream.Silence(origin, context.DeadlineExceeded)
	case code == codes.Canceled:
		return context.Canceled
	case len(said) == 0:
		return upstream.Silence(origin, errors.New(st.Message()))
	case known, code == codes.InvalidArgument, code == codes.Unimplemented, code == codes.Unknown, code == codes.Internal:
		return nil
	}
	var retry time.Duration
	if after := said.Get("retry-after"); len(after) > 0 {
		retry = upstream.RetryAfter(http.Header{"Retry-After": after})
	}
	return e.gateway(upstream.GRPC, int64(st.Code()), st.Message(), retry)
}

// refusedInvocation reads a status that came with a height if the method's handler has run, and with 0 if not.
func refusedInvocation(st *status.Status, told, asked int64) (*Answer, error) {
	text := st.Message()
	if told > 0 && st.Code() == codes.ResourceExhausted && strings.HasPrefix(text, tooLarge) {
		return nil, badAnswer(errTooLarge)
	}
	body, err := proto.Marshal(st.Proto())
	if err != nil {
		return nil, badAnswer(err)
	}
	a := &Answer{Status: http.StatusInternalServerError, NodeStatus: http.StatusInternalServerError, Type: UnrunType, Body: body, Text: text, Height: told}
	if told > 0 {
		a.Type, a.Reason = StatusType, Refused
		return a, nil
	}
	reason, known := classify(grpcUnrun, text, asked)
	switch a.Reason = reason; {
	case reason == Pruned || reason == FutureHeight:
		a.Height = asked
	case reason == BadInput, !known && st.Code() != codes.Unknown && st.Code() != codes.Internal:
		a.Reason, a.NodeStatus = BadInput, http.StatusNotFound // no handler has run
	}
	return a, nil
}

// Stream opens a stream of a method to a node's gRPC, which lasts as long as ctx. It is opened once,
// and takes no turn: its owner bounds how many there are.
func (p *Pool) Stream(ctx context.Context, method string) (grpc.ClientStream, error) {
	f := &fetch{pool: p, request: Request{Invoke: &Invocation{Method: method}, Height: AtTip, Unpinned: true}}
	e, _ := f.choose()
	if e == nil {
		return nil, p.noEndpoint()
	}
	stream, err := e.grpc.conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true}, method, e.grpc.limit())
	if err != nil {
		return nil, upstream.Silence(origin, err)
	}
	return stream, nil
}

// Bytes is the codec of gRPC whose messages are *[]byte, and the *Large that are sent.
type Bytes struct{}

// A Large is a message of more than a kilobyte whose sender is told, by Done, when it has left for
// the client or never will.
type Large struct {
	Bytes []byte
	Done  func()
}

// Get is not called: mem.BufferPool has it.
func (*Large) Get(int) *[]byte { return nil }

// Put is called once the message is not in use any more.
func (l *Large) Put(*[]byte) { l.Done() }

// Marshal gives the bytes as they are. They must not change while they are sent.
func (Bytes) Marshal(v any) (mem.BufferSlice, error) {
	switch m := v.(type) {
	case *[]byte:
		return mem.BufferSlice{mem.SliceBuffer(*m)}, nil
	case *Large:
		return mem.BufferSlice{mem.NewBuffer(&m.Bytes, m)}, nil
	default:
		return nil, fmt.Errorf("node: a message is a %T", v)
	}
}

// Unmarshal gives a copy of the bytes.
func (Bytes) Unmarshal(data mem.BufferSlice, v any) error {
	b, ok := v.(*[]byte)
	if !ok {
		return fmt.Errorf("node: a message is a %T", v)
	}
	*b = data.Materialize()
	return nil
}

// Name is that of the encoding, which is the messages' own.
func (Bytes) Name() string { return "proto" }
