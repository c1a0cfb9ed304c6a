package cosmos

import (
	"fmt"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/chain"
)

// SetClasses puts other classes, and other policies of single rows, in force from the next request
// on. An error says that a row does not exist; then nothing has changed.
func (h *Handler) SetClasses(classes chain.Classes, own map[string]cache.Policy) error {
	for name := range own {
		if _, ok := RowClass(h.o.Rows, name); !ok {
			return fmt.Errorf("cosmos: no row is called %q", name)
		}
	}
	p := &chain.Policies{Classes: classes.WithDefaults()}
	for _, m := range h.index.rows {
		policy, ok := own[m.Name]
		if !ok {
			policy = policyOf(p.Classes, m.Class)
		}
		p.Rows = append(p.Rows, policy)
	}
	h.policies.Store(p)
	return nil
}

// policyOf is the policy of a class. What CometBFT has by height or hash is fixed once it is there; what
// is not there yet is asked for again at the next block.
func policyOf(c chain.Classes, class Class) cache.Policy {
	switch class {
	case Params:
		return c.Params
	case Block, Found:
		p := c.Live
		p.StaleBlocks, p.Stale = p.FreshBlocks, p.Fresh
		p.Immutable, p.OnlyFound, p.Keep = true, true, c.Pinned.Keep
		return p
	default:
		return c.Live
	}
}
