package proxy

import (
	"context"
	"errors"
	"time"

	"github.com/tipcache/tipcache/cache/ahead"
	"github.com/tipcache/tipcache/proxy/blocks"
)

// ReadAhead says how much is read when a block comes, before a client asks.
type ReadAhead struct {
	Share float64     // of a block's time; 0: nothing is read ahead
	Room  func() bool // tells whether a node could take a request that no client waits for; required unless Share is 0
}

// DefaultReadAhead is the share of a server that is not told otherwise. Options
// leave it out: their zero share is never.
const DefaultReadAhead = 0.1

func (r ReadAhead) validate() error {
	if r.Share > 0 && r.Room == nil {
		return errors.New("proxy: ReadAhead.Room is required")
	}
	return nil
}

// Run reads ahead at every block until ctx ends, and returns once what it has
// begun is over.
func (s *Server) Run(ctx context.Context) {
	if s.o.ReadAhead.Share <= 0 {
		return
	}
	for last := int64(0); ctx.Err() == nil; {
		tip := s.o.Chain.Nodes.Tip()
		if tip.Known && !tip.CatchingUp && tip.Height != last {
			last = tip.Height
			s.o.Cache.ReadAhead(ctx, ahead.Block{
				Height: tip.Height, MaxHeight: tip.Limit, Room: s.o.ReadAhead.Room,
				Time: time.Duration(s.o.ReadAhead.Share * float64(tip.Interval)),
			})
		}
		awaitBlock(ctx, s.o.Chain.Nodes, last)
	}
}

// lookAgain is how long a block is waited for: the chain may have been set back.
const lookAgain = 5 * time.Second

// awaitBlock returns when a block has come after another one, and else after a
// while.
func awaitBlock(ctx context.Context, nodes blocks.Nodes, after int64) {
	ctx, cancel := context.WithTimeout(ctx, lookAgain)
	defer cancel()
	if nodes.WaitHeight(ctx, after+1) != nil {
		<-ctx.Done()
	}
}
