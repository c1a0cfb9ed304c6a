package rpc

import (
	"cmp"

	"golang.org/x/sync/errgroup"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/rpc/socket"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
)

// callCost is the measured memory of each call of a batch after the first, in bytes.
const callCost = 1 << 10

// run answers calls at one tip: concurrently, except for exclusive ones. held has the memory of the answers; nil means that
// the caller counts it.
func (d *Handler) run(from *web.Request, pending []*pendingCall, held *conn.HeldResponse) {
	workers := min(len(pending), socket.MaxConcurrent)
	release, err := d.reader.Stack.HoldStream(int64(workers-1) * socket.GoroutineCost)
	if err != nil {
		workers = 1 // sequentially they take no more memory than one call
	} else {
		defer release()
	}
	ctx := d.reader.Stack.WithDeadline(from)
	defer ctx.Release()
	first := makeQueries(pending)
	if first == nil {
		return
	}
	tip, err := d.reader.AwaitBlock(ctx, from, first)
	first.With = nil // the cache may keep first to read it ahead
	answer := func(i int) {
		k := pending[i]
		if k.call == nil {
			return
		}
		if k.err = cmp.Or(err, held.Err()); k.err == nil {
			k.err = upstream.Guard(d.reader.Stack.Logger(), "RPC call", func() error { return k.answerAt(ctx, from, tip) })
		}
		if full := held.Take(len(k.member)); full != nil && k.err == nil {
			k.err = k.dropAnswer(full)
		}
	}
	for begin := 0; begin < len(pending); {
		end := begin + 1
		for end < len(pending) && !pending[begin].isExclusive() && !pending[end].isExclusive() {
			end++
		}
		runConcurrently(begin, end, workers, answer)
		begin = end
	}
	from.Record.Blameless = from.Record.Blameless || pending[len(pending)-1].blameless
}

func (k *pendingCall) isExclusive() bool { return k.call != nil && k.call.m.isExclusive() }

// IsExclusive reports whether calls of a method wait for the earlier calls of their connection and delay the later
// ones.
func (d *Handler) IsExclusive(method string) bool {
	m := d.methods[method]
	return m != nil && m.isExclusive()
}

// makeQueries sets the queries of calls. The caller passes the query that it returns to AwaitBlock, which waits for the block
// that the client requires or has seen. It is a read at the newest block if there is one, and nil if no node is needed.
func makeQueries(pending []*pendingCall) (first *blocks.Read) {
	for _, k := range pending {
		if k.call == nil {
			continue
		}
		*k = pendingCall{call: k.call, query: k.call.makeQuery()} // without an earlier answer
		if first == nil || k.query.Pinned == 0 && k.query.Kind.Class != blocks.Never {
			first = k.query
		}
	}
	for _, k := range pending {
		if k.call != nil && k.query != first {
			first.With = append(first.With, k.query)
		}
	}
	return first
}

func runConcurrently(begin, end, workers int, do func(i int)) {
	if end-begin == 1 || workers == 1 {
		for i := begin; i < end; i++ {
			do(i)
		}
		return
	}
	var group errgroup.Group
	group.SetLimit(workers)
	for i := begin; i < end; i++ {
		group.Go(func() error {
			do(i)
			return nil
		})
	}
	_ = group.Wait() // no call returns an error
}
