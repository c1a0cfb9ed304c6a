package node

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // for nodes that answer so
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

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
	memory  *account.Part // of answers; nil: no limit
	replies replySizes
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

func newGRPCClient(name string, configured Endpoint, o Options) (*grpcClient, error) {
	target, creds, err := parseTarget(configured.GRPC)
	if err != nil {
		return nil, err
	}
	retry := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, MaxDelay: 2 * breakerOpen}
	conn, err := grpc.NewClient(target, grpc.WithPerRPCCredentials(headers(configured.Headers)),
		grpc.WithTransportCredentials(creds), grpc.WithKeepaliveParams(pings), grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0),
		grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: min(o.Timeout, maxDial)}),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(Bytes{})))
	if err != nil {
		return nil, errors.New("not an address of gRPC") // its error repeats the address
	}
	return &grpcClient{
		conn: conn, log: o.Logger.With("node", name), maxBody: o.maxBody, memory: o.Memory, outage: upstream.NewOutage(o.Logger, "gRPC of node "+name),
	}, nil
}

// headers are metadata of every call, as [credentials.PerRPCCredentials].
type headers http.Header

// GetRequestMetadata implements [credentials.PerRPCCredentials].
func (h headers) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	md := make(map[string]string, len(h))
	for name, values := range h {
		md[strings.ToLower(name)] = values[0]
	}
	return md, nil
}

// RequireTransportSecurity implements [credentials.PerRPCCredentials].
func (headers) RequireTransportSecurity() bool { return false }

// limit bounds the messages of a stream by the memory that is free when the stream begins.
func (c *grpcClient) limit() grpc.CallOption {
	return grpc.MaxCallRecvMsgSize(int(c.memory.Free(c.maxBody)))
}

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
				_ = upstream.Sleep(ctx, time.Second)
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

// CheckGRPC asks the gRPC server of an endpoint for its chain.
func CheckGRPC(ctx context.Context, e Endpoint) (chainID string, err error) {
	c, err := newGRPCClient(e.GRPC, e, Options{}.WithDefaults())
	if err != nil {
		return "", err
	}
	defer func() { _ = c.conn.Close() }()
	return chainOf(ctx, c.conn)
}
