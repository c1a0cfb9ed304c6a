package blocks

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/tipcache/tipcache/cache"
)

// A Class says what may be done with the answers of a kind.
type Class string

// The classes.
const (
	Live   Class = "live"   // state that any block may change: read at the tip
	Params Class = "params" // state that only governance or an upgrade changes: read at the tip
	Block  Class = "block"  // of CometBFT, by height: fixed as soon as it is there. Never pinned: the answer would be the tip's
	Found  Class = "found"  // of CometBFT, by hash: fixed once found, and what is not found may be in the next block
	Latest Class = "latest" // of CometBFT: the newest, or a search; until the next block
	Never  Class = "never"  // about the node itself: passed through
)

// Pinned says whether the class is read at a height.
func (c Class) Pinned() bool { return c == Live || c == Params }

// Fixed says whether an answer of the class never changes once it is found.
func (c Class) Fixed() bool { return c == Block || c == Found }

// Classes are the policies of the classes. A policy left zero is that of
// DefaultClasses.
type Classes struct {
	Live     cache.Policy  // what any block may change
	Params   cache.Policy  // what only governance changes
	Pinned   cache.Policy  // an explicit height, which never changes
	Negative time.Duration // life of an answer that says no
}

// DefaultClasses are the classes of a server that is not told otherwise.
func DefaultClasses() Classes {
	return Classes{
		Live: cache.Policy{
			StaleBlocks: 5, ErrorBlocks: 1000,
			Fresh: 2 * time.Second, Stale: 15 * time.Second, StaleIfError: 30 * time.Minute, Keep: 31 * time.Minute,
		},
		Params: cache.Policy{
			StaleBlocks: 600, ErrorBlocks: 40_000,
			Fresh: time.Minute, Stale: 20 * time.Minute, StaleIfError: 24 * time.Hour, Keep: 24*time.Hour + time.Minute,
		},
		Pinned:   cache.Policy{Immutable: true, Keep: time.Hour},
		Negative: 3 * time.Second,
	}
}

// WithDefaults fills in what was left zero.
func (c Classes) WithDefaults() Classes {
	d := DefaultClasses()
	return Classes{cmp.Or(c.Live, d.Live), cmp.Or(c.Params, d.Params), cmp.Or(c.Pinned, d.Pinned), cmp.Or(c.Negative, d.Negative)}
}

// of is the policy of a class. What is fixed once it is found, and is not there yet,
// is asked for again at the next block.
func (c Classes) of(class Class) cache.Policy {
	p := c.Live
	switch {
	case class == Params:
		return c.Params
	case class.Fixed():
		p.StaleBlocks, p.Stale = p.FreshBlocks, p.Fresh
		p.Immutable, p.ImmutableIfOK, p.Keep = true, true, c.Pinned.Keep
	}
	return p
}

// SetClasses puts other classes, and other policies of single kinds, in force
// from the next request on. What is cached is judged by them from then on. An
// error says that a kind does not exist; then nothing has changed.
func (r *Reader) SetClasses(classes Classes, own map[string]cache.Policy) error {
	for name := range own {
		if !slices.ContainsFunc(r.kinds, func(k *Kind) bool { return k.Name == name }) {
			return fmt.Errorf("no route is called %q", name)
		}
	}
	classes = classes.WithDefaults()
	for _, k := range r.kinds {
		policy, ok := own[k.Name]
		if !ok {
			policy = classes.of(k.Class)
		}
		k.setPolicy(policy)
	}
	r.classes.Store(&classes)
	return nil
}

func (k *Kind) setPolicy(p cache.Policy) {
	p.PastExpiry = k.pinned // "not found" is what the state says
	k.policy.Store(&p)
}

// Negative is the life of an answer that says no, as it is in force.
func (r *Reader) Negative() time.Duration { return r.classes.Load().Negative }
