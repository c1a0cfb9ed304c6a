package chain

import (
	"cmp"
	"time"

	"github.com/tipcache/tipcache/cache"
)

// Classes are the freshness classes the routes name. A policy left zero is that
// of DefaultClasses.
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
			FreshBlocks: 30, StaleBlocks: 600, ErrorBlocks: 40_000,
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

// SetClasses puts other classes, and other policies of single routes, in force
// from the next request on. What is cached is judged by them from then on. An
// error says that a route does not exist; then nothing has changed.
func (h *Handler) SetClasses(classes Classes, own map[string]cache.Policy) error {
	if err := knownRoutes(own); err != nil {
		return err
	}
	p := &Policies{Classes: classes.WithDefaults()}
	for _, rt := range routes {
		policy, ok := own[rt.Name]
		if !ok {
			policy = p.of(rt.class)
		}
		p.Rows = append(p.Rows, policy)
	}
	h.policies.Store(p)
	return nil
}

func (c Classes) of(name class) cache.Policy {
	if name == params {
		return c.Params
	}
	return c.Live
}
