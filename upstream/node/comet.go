package node

import "github.com/tipcache/tipcache/upstream/heights/comet"

// A CometBFT is the RPC of one endpoint.
type CometBFT struct {
	*comet.Client
	pool     *Pool
	endpoint *endpoint
}

// CometBFT is the RPC of each endpoint that has one, in the order they were configured.
func (p *Pool) CometBFT() (all []CometBFT) {
	for _, e := range p.endpoints {
		if e.comet != nil {
			all = append(all, CometBFT{e.comet, p, e})
		}
	}
	return all
}

// Name is that of the endpoint.
func (c CometBFT) Name() string { return c.endpoint.name }

// Fit says whether the endpoint is of our chain, is believed, and has the newest block
// or the one before it.
func (c CometBFT) Fit() bool {
	v := c.endpoint.look()
	return !v.Foreign() && !v.Unseen && !v.Aside && !v.CometDown && !v.CatchingUp && v.Height >= c.pool.Tip().Height-1
}

// Moved is closed when the tip moves, or what is known of an endpoint. Take it before
// looking at either.
func (p *Pool) Moved() <-chan struct{} { return p.chain.Moved() }
