package proxy

import (
	"context"
	"time"

	"github.com/tipcache/tipcache/cache/ahead"
)

// Three packages take part in reading ahead: package ahead chooses the keys, package cache reads them as it does for
// callers, and this loop, which knows the chain's tip, starts a round at each block.

// ReadAhead limits how much is read when a block arrives, before a client requests it.
type ReadAhead struct {
	Share float64     // of a block's time; 0 disables reading ahead
	Room  func() bool // reports whether a node can take a request that no client waits for; required unless Share is 0
}

// DefaultReadAhead is the default Share of the program. The zero Options read nothing ahead.
const DefaultReadAhead = 0.1

// Run reads ahead at every block, except while the nodes catch up, until ctx ends. It returns once its reads have ended.
func (s *Server) Run(ctx context.Context) {
	if s.o.ReadAhead.Share <= 0 {
		return
	}
	for last := int64(0); ctx.Err() == nil; {
		tip := s.o.Chain.Nodes.Tip()
		arrived := tip.Known && tip.Height != last
		if last = tip.Height; arrived && !tip.CatchingUp {
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

// lookAgain is the longest wait for a block. The chain may have been rolled back, so that the block does not come.
const lookAgain = 5 * time.Second
