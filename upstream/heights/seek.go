package heights

import "context"

// Seek is called when a node has answered while no tip is known, as after an
// outage. The sources of the node are asked at once, and waited for: each for
// one round, which begins after the call. Seek says whether the tip is known
// then.
func (c *Chain) Seek(ctx context.Context, n *Node) bool {
	ctx, cancel := context.WithTimeout(ctx, maxProof)
	defer cancel()
	var rounds []<-chan struct{}
	for _, s := range c.claimants {
		if s.node == n {
			rounds = append(rounds, s.seek())
		}
	}
	for moved := c.Moved(); len(rounds) > 0 && !c.Tip().Known; {
		select {
		case <-rounds[0]:
			rounds = rounds[1:]
		case <-moved:
			moved = c.Moved()
		case <-ctx.Done():
			return false
		}
	}
	return c.Tip().Known
}

// seek has the source asked at once, and gives what is closed at the end of that
// round.
func (s *claimant) seek() (over <-chan struct{}) {
	over = s.round.next()
	select {
	case s.sought <- struct{}{}:
	default:
	}
	return over
}
