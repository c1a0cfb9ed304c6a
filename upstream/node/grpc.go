package node

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	_ "google.golang.org/grpc/encoding/gzip" // for nodes that compress
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/protofield"
)

// A grpcClient calls one node's gRPC server. It is used after the server has named the chain on the connection.
type grpcClient struct {
	current  atomic.Pointer[grpcConn]
	options  []grpc.DialOption
	stale    chan struct{} // has a value if the connection should be replaced before its age
	maxAge   time.Duration
	timeout  time.Duration // of a request
	retiring sync.WaitGroup
	log      *slog.Logger
	outage   *upstream.Outage
	maxBody  int64
	memory   *account.Part // budget of responses; nil means no limit
	replies  replySizes
	base     *url.URL              // of streams
	headers  http.Header           // of every call
	hide     *strings.Replacer     // redacts their values
	life     context.Context       //nolint:containedctx // of streams
	end      context.CancelFunc    // ends life
	problem  atomic.Pointer[error] // why the chain is unknown; nil if there was no error
	lag      grpcLag

	unknownSince atomic.Int64 // when the chain became unknown, Unix time in nanoseconds
}

// Nodes forbid more frequent pings. A connection is closed if a ping is not acknowledged.
var pings = keepalive.ClientParameters{Time: 6 * time.Minute, Timeout: 5 * time.Second}

// The flow control windows in bytes. A call or stream has the library's minimum, and a connection more than is usually
// in flight.
const (
	streamWindow = 64 << 10
	connWindow   = 16 << 20
)

func newGRPCClient(name string, configured Endpoint, o Options) (*grpcClient, error) {
	base, err := ParseTarget(configured.GRPC)
	if err != nil {
		return nil, err
	}
	creds := insecure.NewCredentials()
	if base.Scheme == "https" {
		creds = credentials.NewTLS(&tls.Config{MinVersion: tls.VersionTLS12})
	}
	retry, dial := backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 2, MaxDelay: 2 * breakerOpen}, min(o.Timeout, maxDial)
	life, end := context.WithCancel(context.Background())
	c := &grpcClient{
		options: []grpc.DialOption{
			grpc.WithTransportCredentials(creds), grpc.WithKeepaliveParams(pings), grpc.WithDisableServiceConfig(), grpc.WithIdleTimeout(0),
			grpc.WithStaticStreamWindowSize(streamWindow), grpc.WithStaticConnWindowSize(connWindow),
			grpc.WithConnectParams(grpc.ConnectParams{Backoff: retry, MinConnectTimeout: dial}),
			grpc.WithDefaultCallOptions(grpc.ForceCodecV2(Bytes{})),
		},
		stale: make(chan struct{}, 1), maxAge: o.maxAge, timeout: o.Timeout, life: life, end: end,
		base: base, headers: configured.Headers, hide: upstream.NewRedactor(base, upstream.HeaderValues(configured.Headers)...),
		log: o.Logger.With("node", name), maxBody: o.maxBody, memory: o.Memory, outage: upstream.NewOutage(o.Logger, "gRPC of node "+name),
	}
	c.unknownSince.Store(time.Now().UnixNano())
	first, err := c.connect()
	if err != nil {
		return nil, errors.New("invalid gRPC address") // err contains the address, which may hold a key
	}
	c.current.Store(first)
	return c, nil
}

// close ends all streams and closes the connections.
func (c *grpcClient) close() {
	c.end()
	c.retiring.Wait()
	c.current.Load().close()
}

// ParseTarget parses the address of a gRPC server: host:port with an optional http://, or https:// for TLS. Its errors do not
// contain the address.
func ParseTarget(address string) (*url.URL, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	u, err := parseBase(address)
	if err != nil || u.Port() == "" || u.Hostname() == "" || u.Path != "" || u.User != nil {
		return nil, errors.New("expected host:port, http://host:port, or https://host:port for TLS")
	}
	return u, nil
}

// heightKey is the metadata key of the height, in requests and responses.
const heightKey = "x-cosmos-block-height"

// outgoing returns a context for a call at a height, 0 for the newest. Its metadata also has the configured headers and the
// trace of ctx.
func (c *grpcClient) outgoing(ctx context.Context, height int64) context.Context {
	h := http.Header{}
	maps.Copy(h, c.headers)
	upstream.PassTrace(ctx, h)
	if height > 0 {
		h.Set(heightKey, strconv.FormatInt(height, 10))
	}
	var pairs []string
	for name, values := range h {
		for _, value := range values {
			pairs = append(pairs, name, value)
		}
	}
	return metadata.AppendToOutgoingContext(ctx, pairs...)
}

func chainOf(ctx context.Context, conn grpc.ClientConnInterface, options ...grpc.CallOption) (string, error) {
	var nothing, reply []byte
	if err := conn.Invoke(ctx, "/cosmos.base.tendermint.v1beta1.Service/GetNodeInfo", &nothing, &reply, options...); err != nil {
		return "", err
	}
	if name := protofield.Bytes(protofield.Bytes(reply, 1), 4); len(name) > 0 { // default_node_info.network
		return string(name), nil
	}
	return "", errors.New("server does not name its chain")
}

// identity is whether a server serves the pool's chain.
type identity int

const (
	unknownChain identity = iota
	ownChain
	otherChain
)

// isReconnecting reports whether the connection was lost less than within ago, and the next one has not failed.
func (c *grpcClient) isReconnecting(within time.Duration) bool {
	return c.maySoonBeKnown(within) && c.current.Load().GetState() != connectivity.TransientFailure
}

// maySoonBeKnown reports whether the server's chain has been unknown for less than patience.
func (c *grpcClient) maySoonBeKnown(patience time.Duration) bool {
	return time.Since(time.Unix(0, c.unknownSince.Load())) < patience
}
