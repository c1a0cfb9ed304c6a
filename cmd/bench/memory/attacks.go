package memory

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// A target is what clients attack.
type target struct {
	chain           *devnet.Devnet
	rest, rpc, grpc string // addresses
	tls             bool
}

// An attack is what a number of clients do, each with a connection at a time.
type attack struct {
	name        string
	short       bool // it is in the short form, which has one for each listener
	tls         bool
	connections int
	run         func(ctx context.Context, t *target, client int)
}

// String is its name.
func (a attack) String() string { return a.name }

const streams = 250 // that a client tries to open on a connection

var attacks = []attack{
	{"REST HTTP/1: lists unread", false, false, 1000, unread},
	{"REST HTTP/1: bodies that do not end", true, false, 400, slowBodies},
	{"REST HTTP/2: responses unread", true, true, 100, flood{of: restAddr, window: 0, end: true, path: smallList}.run},
	{"REST HTTP/2: lists unread", false, true, 100, flood{of: restAddr, window: 0, end: true, path: largeList}.run},
	{"REST HTTP/2: waits for a block", false, true, 100, flood{of: restAddr, window: 1 << 20, end: true, path: func(*target, int, int) string {
		return "/cosmos/staking/v1beta1/pool?x-min-block-height=99999999"
	}}.run},
	{"REST HTTP/2: bodies that do not come", false, true, 100, flood{of: restAddr, window: 1 << 20, path: post, headers: [][2]string{{"content-type", "application/json"}, {"content-length", "500"}}}.run},
	{"REST HTTP/2: large headers", false, true, 100, flood{of: restAddr, window: 0, end: true, path: smallList, headers: [][2]string{{"x-large", strings.Repeat("x", 14<<10)}}}.run},
	{"RPC HTTP/2: bodies that do not come", false, true, 100, flood{of: rpcAddr, window: 1 << 20, path: func(*target, int, int) string { return "/" }, headers: [][2]string{{"content-type", "application/json"}}}.run},
	{"RPC HTTP/1: batches unread", true, false, 400, batches},
	{"WebSocket: subscriptions unread", false, false, 300, subscriptions},
	{"WebSocket: calls unread", true, false, 300, socketCalls(100, 0)},
	{"WebSocket: long messages", false, false, 300, socketCalls(100, 60_000)},
	{"gRPC: calls without a message", false, false, 100, flood{of: grpcAddr, window: 1 << 20, path: balance, headers: ofGRPC}.run},
	{"gRPC: calls that wait for a block", false, false, 100, flood{of: grpcAddr, window: 1 << 20, path: balance, headers: append(ofGRPC[:len(ofGRPC):len(ofGRPC)], [2]string{"x-min-block-height", "99999999"}), data: empty, ends: true}.run},
	{"gRPC: responses unread", false, false, 150, flood{of: grpcAddr, window: 0, path: validators, headers: ofGRPC, data: pages, ends: true}.run},
	{"gRPC: messages that inflate", false, false, 20, flood{of: grpcAddr, window: 1 << 20, path: balance, headers: append(ofGRPC[:len(ofGRPC):len(ofGRPC)], [2]string{"grpc-encoding", "gzip"}), data: bomb, ends: true}.run},
	{"gRPC: messages that do not end", true, false, 50, flood{of: grpcAddr, window: 1 << 20, path: balance, headers: ofGRPC, data: endless}.run},
	{"gRPC-Web: bodies that do not end", true, false, 300, slowCalls},
}

func restAddr(t *target) string { return t.rest }
func rpcAddr(t *target) string  { return t.rpc }
func grpcAddr(t *target) string { return t.grpc }

func smallList(_ *target, client, stream int) string {
	return fmt.Sprintf("/cosmos/staking/v1beta1/validators?pagination.limit=%d&pagination.offset=%d", 1+stream%20, client%10)
}

func largeList(t *target, client, stream int) string { return list(t, client*streams+stream) }

// list is the n-th of many lists of 300 kB.
func list(t *target, n int) string {
	return fmt.Sprintf("/cosmos/staking/v1beta1/validators/%s/delegations?pagination.limit=%d&pagination.offset=%d", t.chain.Validators()[0], 1000+n%500, n/500%500)
}

func post(*target, int, int) string { return "/cosmos/tx/v1beta1/simulate" }

var ofGRPC = [][2]string{{"content-type", "application/grpc"}, {"te", "trailers"}}

func balance(*target, int, int) string    { return "/cosmos.bank.v1beta1.Query/TotalSupply" }
func validators(*target, int, int) string { return "/cosmos.staking.v1beta1.Query/Validators" }

// framed is a message of gRPC.
func framed(flag byte, message []byte) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{flag}, uint32(len(message))), message...) //nolint:gosec // of the rig's own
}

func empty(int, int) []byte { return framed(0, nil) }

// pages asks for pages of different sizes.
func pages(client, stream int) []byte {
	return framed(0, []byte{0x12, 4, 0x18, byte(1 + stream%60), 0x10, byte(client % 20)})
}

// zeros is a message of 10 MiB in gzip.
var zeros = sync.OnceValue(func() []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write(make([]byte, 10<<20-64))
	_ = z.Close()
	return framed(1, b.Bytes())
})

func bomb(int, int) []byte { return zeros() }

// endless announces 10 MiB and sends what a window allows.
func endless(int, int) []byte {
	return append(binary.BigEndian.AppendUint32([]byte{0}, 10<<20), make([]byte, 60<<10)...)
}

// talk has a client do something on a connection, again and again until ctx ends. The kernels hold little of
// what is not read, as between machines.
func talk(ctx context.Context, addr string, do func(net.Conn) error) {
	for rig.Pause(ctx, time.Second/10) {
		conn, err := clients.DialNarrow(ctx, addr)
		if err != nil {
			continue
		}
		stop := context.AfterFunc(ctx, func() { _ = conn.Close() })
		_ = do(conn)
		stop()
		_ = conn.Close()
	}
}

// unread asks for large lists and does not read them.
func unread(ctx context.Context, t *target, client int) {
	n := client
	talk(ctx, t.rest, func(c net.Conn) error {
		n += 1000
		if _, err := c.Write(clients.Request(http.MethodGet, list(t, n), "")); err != nil {
			return err
		}
		return readHardly(ctx, c)
	})
}

// readHardly reads a kilobyte a second.
func readHardly(ctx context.Context, c net.Conn) error {
	for rig.Pause(ctx, time.Second) {
		if _, err := io.CopyN(io.Discard, c, 1<<10); err != nil {
			return err
		}
	}
	return nil
}

// slowBody sends all of a body but its last byte, and waits.
func slowBody(ctx context.Context, addr, path, typ string, body []byte) {
	talk(ctx, addr, func(c net.Conn) error {
		request := clients.Request(http.MethodPost, path, string(body), "Content-Type: "+typ)
		if _, err := c.Write(request[:len(request)-1]); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, c)
		return err
	})
}

func slowBodies(ctx context.Context, t *target, _ int) {
	slowBody(ctx, t.rest, post(t, 0, 0), "application/json", bytes.Repeat([]byte("A"), 1<<20-100))
}

// slowCalls sends most of a message of gRPC-Web in base64.
func slowCalls(ctx context.Context, t *target, _ int) {
	body := base64.StdEncoding.EncodeToString(framed(0, make([]byte, 4<<20)))
	slowBody(ctx, t.rest, balance(t, 0, 0), "application/grpc-web-text+proto", []byte(body))
}

// batches posts calls whose answers are large, and does not read them.
func batches(ctx context.Context, t *target, client int) {
	var calls []string
	for i := range 100 {
		calls = append(calls, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"block","params":{"height":"%d"}}`, i, 1+(client*100+i)%900))
	}
	body := "[" + strings.Join(calls, ",") + "]"
	talk(ctx, t.rpc, func(c net.Conn) error {
		if _, err := c.Write(clients.Request(http.MethodPost, "/", body, "Content-Type: application/json")); err != nil {
			return err
		}
		return readHardly(ctx, c)
	})
}

// upgrade opens a WebSocket.
func upgrade(c net.Conn) error {
	_, err := io.WriteString(c, "GET /websocket HTTP/1.1\r\nHost: bench\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n")
	return err
}

// socketCalls opens a WebSocket, makes so many calls with so many bytes of white space, and does not read.
func socketCalls(calls, space int) func(context.Context, *target, int) {
	return func(ctx context.Context, t *target, client int) {
		talk(ctx, t.rpc, func(c net.Conn) error {
			if err := upgrade(c); err != nil {
				return err
			}
			for i := range calls {
				call := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"block","params":{"height":"%d"%*s}}`, i, 1+(client*100+i)%900, space, "")
				if _, err := c.Write(maskedFrame(call)); err != nil {
					return err
				}
			}
			return readHardly(ctx, c)
		})
	}
}

// subscriptions opens a WebSocket, subscribes to all that it may, and does not read.
func subscriptions(ctx context.Context, t *target, _ int) {
	queries := []string{"tm.event='NewBlock'", "tm.event='Tx'", "tm.event='NewBlockHeader'", "tm.event='NewBlockEvents'"}
	talk(ctx, t.rpc, func(c net.Conn) error {
		if err := upgrade(c); err != nil {
			return err
		}
		for i := range 20 {
			query := queries[i%len(queries)] + strings.Repeat(" ", i/len(queries))
			if _, err := c.Write(maskedFrame(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"subscribe","params":{"query":"%s"}}`, i, query))); err != nil {
				return err
			}
		}
		return readHardly(ctx, c)
	})
}

// maskedFrame is a text of up to 64 KiB as a frame of a client.
func maskedFrame(text string) []byte {
	b := binary.BigEndian.AppendUint16([]byte{0x81, 0x80 | 126}, uint16(len(text))) //nolint:gosec // they are short
	return append(append(b, 0, 0, 0, 0), text...)
}
