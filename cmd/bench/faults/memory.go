package faults

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// memoryScenarios have clients that want to fill the memory of the first replica. Its
// cache has plan.memory MiB, which what they ask for does not fit into.
func memoryScenarios(p plan, hold time.Duration) []scenario {
	small := setup{redis: oneRedis, env: []string{p.memoryEnv()}}
	open := small
	open.flags = []string{"--collections-auth", "none"}
	return []scenario{
		{"streams", small, true, []fault{filled(fmt.Sprintf("%d lists in %d streams", manyStreams*listsPerStream, manyStreams), manyStreams, hold, followLists)}},
		{"unread", small, false, []fault{filled(fmt.Sprintf("%d lists that are hardly read", unreadLists), unreadLists, hold, hardlyRead)}},
		{"codings", small, false, []fault{filled(fmt.Sprintf("%d lists in all codings", encodedLists), listEncoders, hold, askInAllCodings)}},
		{"bodies", open, false, []fault{filled(fmt.Sprintf("%d clients post 1 MiB each", bodyPosters), bodyPosters, hold, postBodies)}},
	}
}

// memoryEnv is the setting of cache.memory.
func (p plan) memoryEnv() string { return fmt.Sprintf("TIPCACHE_CACHE_MEMORY=%dMiB", p.memory) }

// filled has many clients do something at the first replica at the same time, each again
// and again, while what that holds is measured.
func filled(name string, many int, hold time.Duration, do func(ctx context.Context, b *bed, client int)) fault {
	return fault{name: name, hold: hold, withstood: true, cause: func(ctx context.Context, b *bed) {
		var all sync.WaitGroup
		defer all.Wait()
		for i := range many {
			all.Go(func() { do(ctx, b, i) })
		}
		bound, peak := rig.MemoryBound(b.plan.memory, many+b.plan.clients), int64(0)
		for rig.Pause(ctx, time.Second/4) {
			peak = max(peak, rig.Must(b.replicas[0].Usage()).RSS)
		}
		b.note("replica 1 held %d MiB at most, of %d", peak>>20, bound>>20)
		if peak > bound {
			rig.Check(fmt.Errorf("a replica held %d MiB, more than %d", peak>>20, bound>>20))
		}
	}}
}

const (
	manyStreams    = 30 // by clients, each of as many lists as one may have
	listsPerStream = 20
)

// followLists has a client follow many large lists.
func followLists(ctx context.Context, b *bed, client int) {
	path := "/live?"
	for i := range listsPerStream {
		n := client*listsPerStream + i
		path += fmt.Sprintf("path=%s%%3Fpagination.limit%%3D%d%%26pagination.offset%%3D%d&", b.Paths("/staking/validators")[0], 20+n%50, n/50)
	}
	request := clients.Request(http.MethodGet, path, "", "Accept: text/event-stream")
	for rig.Pause(ctx, time.Second) {
		b.talk(ctx, request, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
	}
}

// delegations is the n-th of many lists of 300 kB.
func (b *bed) delegations(n int) string {
	popular := devnet.PopularValidator
	if b.Dialect == devnet.Cosmos {
		popular = b.chain.Validators()[0]
	}
	return b.Paths("/staking/validators/" + popular + "/delegations")[0] + fmt.Sprintf("?pagination.limit=%d&pagination.offset=%d", 1000+n%500, n/500)
}

const unreadLists = 2000

// hardlyRead has a client ask for large lists, and hardly read them.
func hardlyRead(ctx context.Context, b *bed, client int) {
	for n := client; rig.Pause(ctx, time.Second); n += unreadLists {
		b.talk(ctx, clients.Request(http.MethodGet, b.delegations(n), ""), func(c net.Conn) {
			status := make([]byte, len("HTTP/1.1 200"))
			_, err := io.ReadFull(c, status)
			for ok := bytes.HasSuffix(status, []byte("200")); ok && err == nil && rig.Pause(ctx, time.Second); {
				_, err = io.CopyN(io.Discard, c, 1<<10)
			}
		})
	}
}

const (
	listEncoders = 32
	encodedLists = 1000 // each in all codings
)

// askInAllCodings has a client ask for ever other lists in all codings, twice: what is asked
// for again is encoded better.
func askInAllCodings(ctx context.Context, b *bed, client int) {
	conn := clients.Conn{Addr: b.replicas[0].addrs[0]}
	defer conn.Close()
	for n := client; ctx.Err() == nil; n = (n + listEncoders) % encodedLists {
		for _, coding := range []string{"gzip", "zstd", "br", "gzip, identity;q=0", "zstd, identity;q=0", "br, identity;q=0", "identity"} {
			_, _ = conn.Get(ctx, b.delegations(n), "Accept-Encoding: "+coding)
		}
	}
}

const bodyPosters = 200

// postBodies has a client post the largest bodies that are taken: addresses of
// collections, or a transaction.
func postBodies(ctx context.Context, b *bed, client int) {
	path, begin, item, end := "/api/v4/collections", `{"where":{"collectionAddresses":[`, fmt.Sprintf(`"0x%040x",`, client), `"0x"]}}`
	if b.Dialect == devnet.Cosmos {
		path, begin, item, end = "/cosmos/tx/v1beta1/simulate", `{"tx_bytes":"`, "QUJD", `"}`
	}
	var body bytes.Buffer
	body.WriteString(begin)
	for body.Len() < 1<<20-100 {
		body.WriteString(item)
	}
	body.WriteString(end)
	request := clients.Request(http.MethodPost, path, body.String(), "Content-Type: application/json")
	conn := clients.Conn{Addr: b.replicas[0].addrs[0]}
	defer conn.Close()
	for ctx.Err() == nil {
		if r, err := conn.Do(ctx, request); err != nil || r.Status == http.StatusTooManyRequests {
			rig.Pause(ctx, time.Second/10)
		}
	}
}

// talk sends a request on a connection of its own to the first replica, and has it read.
func (b *bed) talk(ctx context.Context, request []byte, read func(net.Conn)) {
	conn, err := clients.DialNarrow(ctx, b.replicas[0].addrs[0])
	if err != nil {
		return
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err = conn.Write(request); err == nil {
		read(conn)
	}
}
