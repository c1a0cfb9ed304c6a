package chain

import (
	"cmp"
	"time"

	"github.com/tipcache/tipcache/cache"
)

// Classes are the freshness classes the routes name. A policy left zero gets
// the default said here.
type Classes struct {
	Live     cache.Policy  // what any block may change; default: fresh for its block, stale for 2 more, 10 min while the node fails
	Params   cache.Policy  // what only governance changes; default: fresh for 30 blocks, stale for 150, a day while the node fails
	Pinned   cache.Policy  // an explicit height, which never changes; default: immutable, kept for a day
	Negative time.Duration // life of an answer that says no; default 3 s
}

func (c Classes) withDefaults() Classes {
	c.Negative = cmp.Or(c.Negative, 3*time.Second)
	c.Live = cmp.Or(c.Live, cache.Policy{
		StaleBlocks: 2, ErrorBlocks: 300,
		Fresh: 2 * time.Second, Stale: 10 * time.Second, StaleIfError: 10 * time.Minute, Keep: 15 * time.Minute,
	})
	c.Params = cmp.Or(c.Params, cache.Policy{
		FreshBlocks: 30, StaleBlocks: 150, ErrorBlocks: 50_000,
		Fresh: time.Minute, Stale: 5 * time.Minute, StaleIfError: 24 * time.Hour, Keep: 25 * time.Hour,
	})
	c.Pinned = cmp.Or(c.Pinned, cache.Policy{Immutable: true, Keep: 24 * time.Hour})
	return c
}

// policies are the classes in force, and by them the policy of every row of the
// table. They are replaced as a whole.
type policies struct {
	Classes
	rows []cache.Policy
}

// SetClasses puts other classes, and other policies of single routes, in force
// from the next request on. What is cached is judged by them from then on. An
// error says that a route does not exist; then nothing has changed.
func (h *Handler) SetClasses(classes Classes, own map[string]cache.Policy) error {
	if err := knownRoutes(own); err != nil {
		return err
	}
	p := &policies{Classes: classes.withDefaults()}
	for _, rt := range routes {
		policy, ok := own[rt.Name]
		if !ok {
			policy = p.of(rt.class)
		}
		p.rows = append(p.rows, policy)
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
