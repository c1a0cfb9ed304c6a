package node

import "time"

// tell says which chain and epoch are in force.
func (p *Pool) tell() {
	p.epochs.Lock()
	defer p.epochs.Unlock()
	if p.onEpoch != nil {
		p.onEpoch(p.ChainID(), p.Tip().Epoch)
	}
}

// turn ends an epoch: the chain is not the one that was followed so far.
func (p *Pool) turn(from int64, cause string) {
	p.epochs.Lock()
	defer p.epochs.Unlock()
	if p.Tip().Epoch == from { // nobody else was faster
		p.begin(max(from+1, time.Now().Unix()), cause)
	}
}

// begin puts an epoch in force. What is cached goes first, so that nothing of
// the old epoch is taken for current.
func (p *Pool) begin(epoch int64, cause string) {
	before := p.Tip()
	if p.onEpoch != nil {
		p.onEpoch(p.ChainID(), epoch)
	}
	p.tip.Begin(epoch)
	p.metrics.epochs.Inc()
	p.log.Warn("chain was set back or reset, and everything cached is dropped",
		"cause", cause, "epoch", epoch, "tip_before", before.Height, "tip", p.Tip().Height)
	p.moved.flash()
}
