package heights

import (
	"context"
	"slices"
	"sync/atomic"
)

// Seek is called when a node has answered while no tip is known, as after an
// outage. The sources of the node are asked at once, and waited for: each for
// one round, which begins after the call. Seek says whether the tip is known
// then.
func (c *Chain) Seek(ctx context.Context, n *Node) bool {
	ctx, cancel := context.WithTimeout(ctx, maxProof)
	defer cancel()
	var asked []func() bool
	for _, s := range c.claimants {
		if s.node == n {
			asked = append(asked, s.seek())
		}
	}
	for {
		moved, polled := c.Moved(), n.polled.next()
		if c.Tip().Known {
			return true
		}
		if !slices.ContainsFunc(asked, func(over func() bool) bool { return !over() }) {
			return false
		}
		select {
		case <-moved:
		case <-polled:
		case <-ctx.Done():
			return false
		}
	}
}

// rounds count how often a source was asked.
type rounds struct {
	begun, ended atomic.Int64
	sought       chan struct{} // has a value if another round is to begin at once
}

func newRounds() *rounds { return &rounds{sought: make(chan struct{}, 1)} }

// round begins one, and returns what ends it. They follow one after the other.
func (s *claimant) round() (end func()) {
	s.begun.Add(1)
	return func() {
		s.ended.Add(1)
		s.node.polled.notify()
	}
}

// seek has a round begin. What it returns says whether that is over.
func (s *claimant) seek() (over func() bool) {
	before := s.begun.Load()
	select {
	case s.sought <- struct{}{}:
	default:
	}
	return func() bool { return s.ended.Load() > before }
}
