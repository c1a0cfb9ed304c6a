package proxy

import (
	"context"
	"time"

	"github.com/tipcache/tipcache/cache/ahead"
)

// ReadAhead says how much is read when a block comes, before a client asks.
type ReadAhead struct {
	Share float64     // of a block's time; 0: nothing is read ahead
	Room  func() bool // tells whether a node could take a request that no client waits for; required unless Share is 0
}

// DefaultReadAhead is the share of a server that is not told otherwise. Options
// leave it out: their zero share is never.
const DefaultReadAhead = 0.1

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
		within, cancel := context.WithTimeout(ctx, lookAgain)
		if s.o.Chain.Nodes.WaitHeight(within, last+1) != nil {
			<-within.Done()
		}
		cancel()
	}
}

// lookAgain is how long a block is waited for: the chain may have been set back.
const lookAgain = 5 * time.Second
