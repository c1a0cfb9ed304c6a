package story

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/node"
)

// maxShared is the maximum size of a body that is shared, in bytes.
const maxShared = 256 << 10

// sharedReads reads a path at the tip once per block for the handlers of all shapes, each of which has its own cache entries.
type sharedReads struct {
	blocks.Nodes
	log     *slog.Logger
	flights singleflight.Group
	memory  *account.Part // budget of the answers

	mu            sync.Mutex
	epoch, height int64                   // block of answers
	answers       map[string]sharedAnswer // by path and query
	held          *account.Hold
}

// A sharedAnswer is an answer and when it was read.
type sharedAnswer struct {
	*node.Answer
	at time.Time
}

// sharedFor limits how long an answer is shared while no block arrives, so that a purge reads the nodes again.
const sharedFor = 2 * time.Second

// ShareReads returns nodes for the handlers of several shapes of one chain, which read the same request once per block.
// The answers of a block are kept within a part of the account.
func ShareReads(nodes blocks.Nodes, memory *account.Account, log *slog.Logger) blocks.Nodes {
	most := memory.Limit() / 16
	part := memory.Part(account.Upstream, most, most)
	return &sharedReads{Nodes: nodes, log: log, memory: part, held: part.Open("", true)}
}

// Fetch implements [blocks.Nodes].
func (s *sharedReads) Fetch(ctx context.Context, r node.Request) (*node.Answer, error) {
	tip := s.Tip()
	if r.Height != node.AtTip || r.Unpinned || r.PageKey != "" || r.Keys != node.UnknownKeys || !tip.Known {
		return s.Nodes.Fetch(ctx, r)
	}
	target := r.Path + "?" + r.Query
	if a := s.answer(tip, target); a != nil {
		return a, nil
	}
	// A foreground read does not wait for one that yields to it.
	read := s.flights.DoChan(fmt.Sprint(tip.Epoch, tip.Height, r.Background, r.Ahead, target), func() (any, error) {
		if a := s.answer(tip, target); a != nil {
			return a, nil
		}
		detached := context.WithoutCancel(ctx) // the other shape may wait for the answer
		if end, ok := ctx.Deadline(); ok {
			var cancel context.CancelFunc
			detached, cancel = context.WithDeadline(detached, end)
			defer cancel()
		}
		var a *node.Answer
		err := upstream.Guard(s.log, "shared read", func() (err error) {
			a, err = s.Nodes.Fetch(detached, r)
			return err
		})
		if err == nil {
			s.keep(tip, target, a)
		}
		return a, err
	})
	select {
	case done := <-read:
		a, _ := done.Val.(*node.Answer)
		return a, done.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// answer returns the answer that was read at the tip; nil for none.
func (s *sharedReads) answer(tip node.Tip, target string) *node.Answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	if tip.Epoch != s.epoch || tip.Height != s.height {
		return nil
	}
	a := s.answers[target]
	if time.Since(a.at) > sharedFor {
		return nil
	}
	return a.Answer
}

// keep stores an answer until the next block. It stores no failures.
func (s *sharedReads) keep(tip node.Tip, target string, a *node.Answer) {
	if a.Reason == node.Other || a.Cached || len(a.Body) > maxShared {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if tip.Epoch < s.epoch || tip.Epoch == s.epoch && tip.Height < s.height {
		return
	}
	if tip.Epoch != s.epoch || tip.Height != s.height {
		s.held.Close()
		s.epoch, s.height, s.answers, s.held = tip.Epoch, tip.Height, map[string]sharedAnswer{}, s.memory.Open("", true)
	}
	n := len(a.Body) + len(target) + 512
	if s.memory.Free(int64(n)) == int64(n) && s.held.Take(n) == nil { // otherwise the other shape reads the node again
		s.answers[target] = sharedAnswer{a, time.Now()}
	}
}
