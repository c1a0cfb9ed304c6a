package blocks

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tipcache/tipcache/cache"
)

// A Class is the freshness class of a kind of reads.
type Class string

// The classes.
const (
	Live   Class = "live"   // state that any block may change: read at the tip
	Params Class = "params" // state that only governance or an upgrade changes: read at the tip
	Block  Class = "block"  // CometBFT data by height: fixed once the block exists. The height is a parameter of the query, so X-Block-Height does not apply
	Found  Class = "found"  // CometBFT data by hash: fixed once found; a missing item may be in the next block
	Latest Class = "latest" // newest CometBFT data or a search: valid until the next block
	Never  Class = "never"  // about the node itself: passed through, not cached

	Unknown Class = "unknown" // a path outside the dialect's table: cached until the next block, and only by this replica
)

// ReadsState reports whether the class reads the state of the chain, which has a height. Such reads are pinned to it.
func (c Class) ReadsState() bool { return c == Live || c == Params }

// Fixed reports whether an answer of the class never changes once it is found.
func (c Class) Fixed() bool { return c == Block || c == Found }

// Classes are the operator's settings of the classes, in the section classes. A zero policy means the one of DefaultClasses.
type Classes struct {
	Live     cache.Policy  `yaml:"live"`   // state that any block may change
	Params   cache.Policy  `yaml:"params"` // state that only governance changes
	Pinned   cache.Policy  `yaml:"-"`      // state at an explicit height, which never changes
	Negative time.Duration `yaml:"negative" reload:"true" must:"positive" doc:"How long a negative response is cached, such as an unknown address or a pruned height. An unknown address is cached for two blocks, if those take longer."`
}

// DefaultClasses returns the classes of the default configuration.
func DefaultClasses() Classes {
	return Classes{
		Live: cache.Policy{
			StaleBlocks: 5, ErrorBlocks: 1000,
			Fresh: 2 * time.Second, Stale: 15 * time.Second, StaleIfError: 30 * time.Minute,
		},
		Params: cache.Policy{
			StaleBlocks: 600, ErrorBlocks: 40_000,
			Fresh: time.Minute, Stale: 20 * time.Minute, StaleIfError: 24 * time.Hour,
		},
		Pinned:   cache.Policy{Immutable: true, Keep: time.Hour},
		Negative: 3 * time.Second,
	}
}

// WithDefaults fills in zero fields.
func (c Classes) WithDefaults() Classes {
	d := DefaultClasses()
	c = Classes{stored(cmp.Or(c.Live, d.Live)), stored(cmp.Or(c.Params, d.Params)), cmp.Or(c.Pinned, d.Pinned), cmp.Or(c.Negative, d.Negative)}
	c.Pinned.Fresh = cmp.Or(c.Pinned.Fresh, c.Live.Fresh) // of provisional entries while no tip is known
	return c
}

// stored returns p for answers that the shared store keeps as long as they may be served.
func stored(p cache.Policy) cache.Policy {
	p.Keep = cmp.Or(p.Keep, p.StaleIfError+time.Minute)
	return p
}

// of returns the policy of a class.
func (c Classes) of(class Class) cache.Policy {
	p := c.Live
	switch {
	case class == Params:
		return c.Params
	case class == Unknown:
		return cache.Policy{Fresh: p.Fresh}
	case class.Fixed():
		p.Keep = c.Pinned.Keep
		return c.fixed(p)
	}
	return p
}

// fixed returns p for answers that never change once they are found. They are kept for p.Keep or c.Pinned.Keep, whichever
// is longer. A missing answer is read again at the next block.
func (c Classes) fixed(p cache.Policy) cache.Policy {
	p.StaleBlocks, p.Stale = p.FreshBlocks, p.Fresh
	p.Immutable, p.ImmutableIfOK, p.Keep = true, true, max(p.Keep, c.Pinned.Keep)
	return p
}

// SetClasses replaces the classes and the policies of single kinds for all later requests, including those for
// entries already cached. It returns an error and changes nothing if a kind does not exist.
func (r *Reader) SetClasses(classes Classes, overrides map[string]cache.Policy) error {
	for name := range overrides {
		if !slices.ContainsFunc(r.kinds, func(k *Kind) bool { return k.Name == name }) {
			return fmt.Errorf("no route is called %q", name)
		}
	}
	classes = classes.WithDefaults()
	for _, k := range r.kinds {
		policy, ok := overrides[k.Name]
		policy = stored(policy)
		switch {
		case !ok:
			policy = classes.of(k.Class)
		case k.Class.Fixed():
			policy = classes.fixed(policy)
		}
		k.setPolicy(policy)
	}
	r.classes.Store(&classes)
	return nil
}

func (k *Kind) setPolicy(p cache.Policy) {
	p.StalePastExpires = k.Class.ReadsState() // of state, only "not found" has Expires, and may be served stale like other state
	k.policy.Store(&p)
}

// Negative returns the current lifetime of negative answers.
func (r *Reader) Negative() time.Duration { return r.classes.Load().Negative }
