package chain

import (
	"context"
	"fmt"
	"sync"

	"golang.org/x/sync/singleflight"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/upstream/node"
)

// Bounds of the answers that both shapes share, in bytes: of one, and of all of a block.
const (
	maxShared    = 256 << 10
	maxAllShared = 16 << 20
)

// sharedReads reads a path at the tip once per block for the handlers of all shapes, which have entries of their own.
type sharedReads struct {
	blocks.Nodes
	flights singleflight.Group

	mu            sync.Mutex
	epoch, height int64                   // block of answers
	answers       map[string]*node.Answer // by path and query
	size          int
}

// ShareReads returns nodes for the handlers of several shapes of one chain, which read the same request once per block.
func ShareReads(nodes blocks.Nodes) blocks.Nodes { return &sharedReads{Nodes: nodes} }

// Fetch implements [blocks.Nodes].
func (s *sharedReads) Fetch(ctx context.Context, r node.Request) (*node.Answer, error) {
	tip := s.Tip()
	if r.Height != node.AtTip || r.Unpinned || r.Audit || r.PageKey != "" || r.Keys != node.UnknownKeys || !tip.Known {
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
		a, err := s.Nodes.Fetch(context.WithoutCancel(ctx), r)
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
	return s.answers[target]
}

// keep keeps an answer until the next block. A failure is read again.
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
		s.epoch, s.height, s.answers, s.size = tip.Epoch, tip.Height, map[string]*node.Answer{}, 0
	}
	if n := len(a.Body) + len(target) + 512; s.size+n <= maxAllShared {
		s.answers[target] = a
		s.size += n
	}
}
