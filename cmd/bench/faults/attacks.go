package faults

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/net/http2"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// An attack fills the memory of the first replica with hostile clients, each with one connection at a time.
type attack struct {
	name    string
	about   string
	short   bool // part of the short run, which attacks each listener once
	tls     bool // the public listener uses TLS, and so HTTP/2
	clients int
	run     func(ctx context.Context, b *bed, client int)
}

const (
	floodStreams   = 250 // streams that a client tries to open on an HTTP/2 connection
	listsPerStream = 20  // maximum number of paths of a stream
	encoders       = 32
	encodedLists   = 1000
)

var attacks = []attack{
	{"idle", "idle connections of all listeners", true, false, 3000, stayIdle},
	{"lists", "lists of 300 kB hardly read", false, false, 1000, unreadLists},
	{"streams", "streams of 20 lists", false, false, 30, followLists},
	{"codings", "1,000 lists in all codings", false, false, encoders, requestAllCodings},
	{"bodies", "bodies that do not end", true, false, 400, slowBody(simulate, "application/json", transaction)},
	{"h2-responses", "HTTP/2: responses unread", true, true, 100, flood{of: restAddr, window: 0, ends: true, path: smallList}.run},
	{"h2-lists", "HTTP/2: lists unread", false, true, 100, flood{of: restAddr, window: 0, ends: true, path: largeList}.run},
	{"h2-waits", "HTTP/2: waits for a block", false, true, 100, flood{of: restAddr, window: 1 << 20, ends: true, path: path("/cosmos/staking/v1beta1/pool?x-min-block-height=99999999")}.run},
	{"h2-bodies", "HTTP/2: bodies that do not arrive", false, true, 100, flood{of: restAddr, window: 1 << 20, path: path(simulate), headers: [][2]string{{"content-type", "application/json"}, {"content-length", "500"}}}.run},
	{"h2-headers", "HTTP/2: headers of 14 kB", false, true, 100, flood{of: restAddr, window: 0, ends: true, path: smallList, headers: [][2]string{{"x-large", strings.Repeat("x", 14<<10)}}}.run},
	{"rpc-bodies", "RPC by HTTP/2: bodies that do not arrive", false, false, 100, flood{of: rpcAddr, window: 1 << 20, path: path("/"), headers: [][2]string{{"content-type", "application/json"}}}.run},
	{"rpc-batches", "RPC: batches unread", true, false, 400, batches},
	{"ws-events", "WebSocket: subscriptions unread", false, false, 300, subscriptions},
	{"ws-calls", "WebSocket: calls unread", true, false, 300, socketCalls(100, 0)},
	{"ws-messages", "WebSocket: long messages", false, false, 300, socketCalls(100, 60_000)},
	{"grpc-idle", "gRPC: calls without a message", false, false, 100, flood{of: grpcAddr, window: 1 << 20, path: path(supply), headers: ofGRPC}.run},
	{"grpc-waits", "gRPC: calls that wait for a block", false, false, 100, flood{of: grpcAddr, window: 1 << 20, path: path(supply), headers: slices.Concat(ofGRPC, [][2]string{{"x-min-block-height", "99999999"}}), data: empty, ends: true}.run},
	{"grpc-responses", "gRPC: responses unread", false, false, 150, flood{of: grpcAddr, window: 0, path: path("/cosmos.staking.v1beta1.Query/Validators"), headers: ofGRPC, data: pages, ends: true}.run},
	{"grpc-gzip", "gRPC: messages that inflate", false, false, 20, flood{of: grpcAddr, window: 1 << 20, path: path(supply), headers: slices.Concat(ofGRPC, [][2]string{{"grpc-encoding", "gzip"}}), data: bomb, ends: true}.run},
	{"grpc-messages", "gRPC: messages that do not end", true, false, 50, flood{of: grpcAddr, window: 1 << 20, path: path(supply), headers: ofGRPC, data: endless}.run},
	{"web-bodies", "gRPC-Web: bodies that do not end", true, false, 300, slowBody(supply, "application/grpc-web-text+proto", webMessage)},
}

const (
	simulate = "/cosmos/tx/v1beta1/simulate"
	supply   = "/cosmos.bank.v1beta1.Query/TotalSupply"
)

// scenario runs the attack next to the model's clients, with cache.memory in MiB.
func (a attack) scenario(mebibytes int, length time.Duration) scenario {
	s := setup{apis: true, dialect: devnet.Cosmos, tls: a.tls, memory: mebibytes}
	return scenario{a.name, s, false, []fault{{name: fmt.Sprintf("%d MiB: %s", mebibytes, a.about), hold: length, withstood: true, cause: func(ctx context.Context, b *bed) {
		var all sync.WaitGroup
		for i := range a.clients {
			all.Go(func() { a.run(ctx, b, i) })
		}
		all.Wait()
		rig.Check(b.isAttackedBy(a.clients))
		peak, bound := rig.Must(b.replicas[0].Peak()), rig.MemoryBound(mebibytes, a.clients+b.plan.clients)
		m, closed := rig.Must(b.replicas[0].Metrics(context.WithoutCancel(ctx))), 0.0
		for _, listener := range []string{"http", "rpc", "grpc"} {
			closed += m.Sum("tipcache_"+listener+"_connections_closed_total", `cause="memory"`)
		}
		b.note("%d clients, %d requests sent: %d MiB held at most, of %d; %.0f of %d connections closed for memory", a.clients, b.sent.Load(), peak>>20, bound>>20, closed, b.opened.Load())
		if peak > bound {
			rig.Check(fmt.Errorf("%d MiB held, more than %d", peak>>20, bound>>20))
		}
	}}}}
}

// isAttackedBy returns an error if hostile clients did not reach the replica.
func (b *bed) isAttackedBy(clients int) error {
	if opened, sent := b.opened.Load(), b.sent.Load(); opened < int64(clients) || sent == 0 {
		return fmt.Errorf("%d hostile clients opened %d connections and sent %d requests", clients, opened, sent)
	}
	return nil
}

func restAddr(b *bed) string { return b.replicas[0].addrs[0] }
func rpcAddr(b *bed) string  { return b.replicas[0].rpc }
func grpcAddr(b *bed) string { return b.replicas[0].grpc }

// path requests the same path in all streams.
func path(p string) func(client, stream int) string { return func(int, int) string { return p } }

func smallList(client, stream int) string {
	return fmt.Sprintf("/cosmos/staking/v1beta1/validators?pagination.limit=%d&pagination.offset=%d", 1+stream%20, client%10)
}

func largeList(client, stream int) string { return list(1000, client*floodStreams+stream) }

// list returns the path of the n-th list with at least least delegations of about 300 bytes.
func list(least, n int) string {
	more := min(500, least/2)
	return fmt.Sprintf("/cosmos/staking/v1beta1/validators/%s/delegations?pagination.limit=%d&pagination.offset=%d", cosmos.PopularValidator, least+n%more, n/more%500)
}

var ofGRPC = [][2]string{{"content-type", "application/grpc"}, {"te", "trailers"}}

// framed returns a gRPC message with its prefix.
func framed(flag byte, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(message))), message...) //nolint:gosec // short
}

func empty(int, int) []byte { return framed(0, nil) }

// pages returns requests for pages of different sizes.
func pages(client, stream int) []byte {
	return framed(0, []byte{0x12, 4, 0x18, byte(1 + stream%60), 0x10, byte(client % 20)})
}

// zeros returns a message of 10 MiB in gzip.
var zeros = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(make([]byte, 10<<20-64))
	_ = z.Close()
	return framed(1, b.Bytes())
})

func bomb(int, int) []byte { return zeros() }

// endless announces 10 MiB and sends one window.
func endless(int, int) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, 10<<20), make([]byte, 60<<10)...)
}

// hostileDialer dials from hostileAddress.
func hostileDialer() *net.Dialer {
	return &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(hostileAddress)}}
}

// talk sends a request on new connections, one after another, and reads each response until the connection or ctx ends. It
// keeps socket buffers as small as between machines: on loopback, where packets are
// long, the kernel would hold megabytes of an unread response.
func (b *bed) talk(ctx context.Context, addr string, send func(io.Writer) error, read func(context.Context, io.Reader)) {
	d := hostileDialer()
	d.Control = func(_, _ string, c syscall.RawConn) error {
		return c.Control(func(fd uintptr) {
			_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10)
			_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_MAXSEG, 1460)
		})
	}
	for rig.Pause(ctx, time.Second/10) {
		conn, err := d.DialContext(ctx, "tcp", addr)
		if err != nil {
			continue
		}
		b.opened.Add(1)
		if b.setup.tls {
			conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12}) //nolint:gosec // the rig's own certificate
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		if send(conn) == nil {
			b.sent.Add(1)
			read(ctx, conn)
		}
		stop()
		_ = conn.Close()
	}
}

// writing returns a function that sends a request.
func writing(request []byte) func(io.Writer) error {
	return func(c io.Writer) error {
		_, err := c.Write(request)
		return err
	}
}

// readAll reads a response.
func readAll(_ context.Context, c io.Reader) { _, _ = io.Copy(io.Discard, c) }

// hardlyRead reads a kilobyte of the response each second.
func hardlyRead(ctx context.Context, c io.Reader) {
	for err := error(nil); err == nil && rig.Pause(ctx, time.Second); {
		_, err = io.CopyN(io.Discard, c, 1<<10)
	}
}

// stayIdle makes one request on a connection of each listener in turn, and then keeps it open until the replica closes it.
func stayIdle(ctx context.Context, b *bed, client int) {
	request := clients.Request(http.MethodGet, "/cosmos/staking/v1beta1/pool", "")
	switch client % 3 {
	case 0:
		b.talk(ctx, restAddr(b), writing(request), readAll)
	case 1:
		b.talk(ctx, rpcAddr(b), writing(clients.Request(http.MethodGet, "/health", "")), readAll)
	default:
		settings := make([]byte, 9) // an empty frame
		settings[3] = byte(http2.FrameSettings)
		b.talk(ctx, grpcAddr(b), writing(append([]byte(http2.ClientPreface), settings...)), readAll)
	}
}

func unreadLists(ctx context.Context, b *bed, client int) {
	n := client
	b.talk(ctx, restAddr(b), func(c io.Writer) error {
		n += 1000
		return writing(clients.Request(http.MethodGet, list(1000, n), ""))(c)
	}, hardlyRead)
}

// followLists streams the maximum number of lists of 25 kB.
func followLists(ctx context.Context, b *bed, client int) {
	path := "/live?"
	for i := range listsPerStream {
		path += "path=" + url.QueryEscape(list(80, client*listsPerStream+i)) + "&"
	}
	b.talk(ctx, restAddr(b), writing(clients.Request(http.MethodGet, path, "", "Accept: text/event-stream")), readAll)
}

// requestAllCodings requests lists in all codings, each twice: an entry that is requested again is compressed better.
func requestAllCodings(ctx context.Context, b *bed, client int) {
	conn := clients.Conn{Addr: restAddr(b)}
	defer conn.Close()
	for n := client; ctx.Err() == nil; n = (n + encoders) % encodedLists {
		for _, coding := range []string{"gzip", "zstd", "br", "gzip, identity;q=0", "zstd, identity;q=0", "br, identity;q=0", "identity"} {
			if _, err := conn.Get(ctx, list(1000, n), "Accept-Encoding: "+coding); err == nil {
				b.sent.Add(1)
			}
		}
	}
	b.opened.Add(int64(conn.Opened))
}

// slowBody sends all of a body but its last byte, and waits. All clients share the request.
func slowBody(path, typ string, body func() string) func(context.Context, *bed, int) {
	request := sync.OnceValue(func() []byte { return clients.Request(http.MethodPost, path, body(), "Content-Type: "+typ) })
	return func(ctx context.Context, b *bed, _ int) {
		b.talk(ctx, restAddr(b), writing(request()[:len(request())-1]), readAll)
	}
}

func transaction() string { return strings.Repeat("A", 1<<20-100) }

// webMessage returns a gRPC-Web message in base64.
func webMessage() string {
	return base64.StdEncoding.EncodeToString(framed(0, make([]byte, 4<<20)))
}

// batches posts calls whose answers are large, and hardly reads them.
func batches(ctx context.Context, b *bed, client int) {
	var calls []string
	for i := range 100 {
		calls = append(calls, blockCall(client, i, 0))
	}
	request := clients.Request(http.MethodPost, "/", "["+strings.Join(calls, ",")+"]", "Content-Type: application/json")
	b.talk(ctx, rpcAddr(b), writing(request), hardlyRead)
}

// blockCall returns the i-th call of a client, padded with white space of space bytes.
func blockCall(client, i, space int) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"block","params":{"height":"%d"%*s}}`, i, 1+(client*100+i)%900, space, "")
}

// socketCalls makes calls over a WebSocket and hardly reads the responses.
func socketCalls(calls, space int) func(context.Context, *bed, int) {
	return func(ctx context.Context, b *bed, client int) {
		overSocket(ctx, b, calls, func(i int) string { return blockCall(client, i, space) })
	}
}

// subscriptions opens the maximum number of subscriptions of a WebSocket.
func subscriptions(ctx context.Context, b *bed, _ int) {
	queries := []string{"NewBlock", "Tx", "NewBlockHeader", "NewBlockEvents"}
	overSocket(ctx, b, 20, func(i int) string {
		return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"subscribe","params":{"query":"tm.event='%s'%*s"}}`, i, queries[i%len(queries)], i/len(queries), "")
	})
}

// overSocket opens a WebSocket, sends a number of messages and hardly reads the responses.
func overSocket(ctx context.Context, b *bed, n int, message func(i int) string) {
	const upgrade = "GET /websocket HTTP/1.1\r\nHost: bench\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
	b.talk(ctx, rpcAddr(b), func(c io.Writer) error {
		err := writing([]byte(upgrade))(c)
		for i := 0; i < n && err == nil; i++ {
			err = writing(maskedFrame(message(i)))(c)
		}
		return err
	}, hardlyRead)
}

// maskedFrame returns a text of up to 64 KiB as a client's frame.
func maskedFrame(text string) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0x81, 0x80 | 126}, uint16(len(text))) //nolint:gosec // they are short
	return append(append(b, 0, 0, 0, 0), text...)
}
