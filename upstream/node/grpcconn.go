package node

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/transport"
)

// A grpcConn holds the connections of a grpcClient, which resolve the server's name once. It is replaced by a new one.
type grpcConn struct {
	*grpc.ClientConn

	streams *http.Transport
	chain   atomic.Pointer[string] // the server's chain; nil if unknown
	inUse   context.Context        //nolint:containedctx // ends when it has been replaced
	retire  context.CancelFunc     // ends inUse
}

// connect returns a grpcConn that is not connected yet.
func (c *grpcClient) connect() (*grpcConn, error) {
	conn, err := grpc.NewClient(c.base.Host, c.options...)
	if err != nil {
		return nil, err
	}
	n := &grpcConn{ClientConn: conn, streams: streamTransport(min(c.timeout, maxDial))}
	n.inUse, n.retire = context.WithCancel(context.Background())
	return n, nil
}

// close closes the connections, except those with open streams, which are closed later.
func (n *grpcConn) close() {
	n.retire()
	n.streams.CloseIdleConnections()
	_ = n.Close()
}

// chainID returns the server's chain, or nil if it is unknown.
func (c *grpcClient) chainID() *string { return c.current.Load().chain.Load() }

func (c *grpcClient) forget(n *grpcConn) {
	if n.chain.Swap(nil) != nil {
		c.unknownSince.Store(time.Now().UnixNano())
	}
}

// follow reads the server's chain on each new connection, until ctx ends.
func (c *grpcClient) follow(ctx context.Context, learn func(context.Context) bool) {
	for ctx.Err() == nil {
		n := c.current.Load()
		state := n.GetState()
		if n.inUse.Err() != nil { // it has just been replaced
			continue
		}
		if state != connectivity.Ready {
			c.forget(n)
		}
		switch {
		case state == connectivity.Idle:
			n.Connect()
		case state == connectivity.TransientFailure:
			learn(ctx)    // fails at once with the reason
			c.reconnect() // resolves the server's name, which the library does only every 30 s
		case state == connectivity.Ready && n.chain.Load() == nil && !learn(ctx):
			_ = upstream.Sleep(ctx, time.Second)
			continue
		}
		within, cancel := context.WithCancel(ctx)
		stop := context.AfterFunc(n.inUse, cancel)
		n.WaitForStateChange(within, state)
		stop()
		cancel()
	}
}

// learn reads the server's chain once, at a height, because a node that has just started cannot read its latest block.
// expected is the expected chain, or "". If a server does not respond on its connection, learn requests another connection.
func (c *grpcClient) learn(ctx context.Context, height int64, expected string) bool {
	within, cancel := context.WithTimeout(ctx, min(probeEvery, c.timeout))
	defer cancel()
	n := c.current.Load()
	state := n.GetState()
	chain, err := chainOf(c.outgoing(within, height), n)
	if n.inUse.Err() != nil { // it was replaced meanwhile
		return false
	}
	if ctx.Err() == nil {
		c.outage.Record(err)
	}
	if err != nil {
		c.problem.Store(&err)
		if state == connectivity.Ready {
			c.reconnect()
		}
		return false
	}
	if expected != "" && chain != expected {
		c.log.Error("gRPC server of a node serves another chain, not using it", "chain", chain, "expected", expected)
	}
	c.problem.Store(nil)
	n.chain.Store(&chain)
	return true
}

// reconnect requests that the connections are replaced soon.
func (c *grpcClient) reconnect() { upstream.Wake(c.stale) }

// renewPause is the minimum time between two attempts to replace the connections.
const renewPause = 5 * time.Second

// renew replaces the connections at their age, or when reconnect was called, until ctx ends. at returns the height at which a new
// server must name its chain, and the expected chain.
func (c *grpcClient) renew(ctx context.Context, at func() (height int64, chain string)) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.stale:
		case <-time.After(transport.Age(c.maxAge)):
		}
		height, chain := at()
		err := upstream.Guard(c.log, "gRPC connection", func() error { return c.replace(ctx, height, chain) })
		if err != nil && ctx.Err() == nil {
			c.log.Debug("gRPC connection not replaced", "err", c.hide.Replace(err.Error()))
			if c.lag.hides(height) || c.current.Load().GetState() != connectivity.Ready {
				c.reconnect()
			}
		}
		if upstream.Sleep(ctx, min(renewPause, c.maxAge)) != nil {
			return
		}
	}
}

// replace replaces the connections by new ones. If the new ones do not work, the old ones remain in use. Calls and streams in
// progress end on the old ones.
func (c *grpcClient) replace(ctx context.Context, height int64, expected string) error {
	next, err := c.connect()
	if err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, probeEvery)
	defer cancel()
	chain, err := chainOf(c.outgoing(within, height), next, grpc.WaitForReady(true))
	if err == nil && expected != "" && chain != expected {
		err = fmt.Errorf("the server serves chain %q instead of %q", chain, expected)
	}
	if err != nil {
		next.close()
		return err
	}
	next.chain.Store(&chain)
	old := c.current.Swap(next)
	old.retire()
	c.lag.end(math.MaxInt64)
	c.outage.End()
	c.retiring.Go(func() {
		_ = upstream.Sleep(c.life, max(c.timeout, probeEvery)+time.Second) // the longest call in progress
		old.close()
	})
	return nil
}
