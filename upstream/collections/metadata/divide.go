package metadata

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// What says that a provider is well, and only refuses what it was asked for: a
// status 4xx, or an answer that is too large.
var errRefused = errors.New("refused")

const (
	// maxRequests is how many requests a batch may be divided into: enough for four
	// bad contracts among a hundred. Where there are more, the next batch gets on.
	maxRequests = 64

	// recently is for how long an answer shows that the provider is well enough for
	// a batch to be divided. Before a contract is blamed, the provider must have
	// answered something since.
	recently = time.Second
)

// A part is asked for in one request: a batch, or what a batch was divided into.
type part struct {
	addresses []string
	left      bool // an answer left all of them out
	of        *division
}

// A division is what a batch has come to. One contract may make the provider
// refuse, fail or hang, so a batch that failed while the provider is well is asked
// for in halves, until the contracts to blame are alone. The halves wait in the
// queue, so that other pages have their turn between them.
type division struct {
	mu      sync.Mutex
	open    int      // parts that wait or are asked for
	asked   int      // requests so far
	blamed  []string // contracts that the provider gives nothing for
	because error    // of the last of them
}

// divide returns the parts that the addresses make, none if they cost too much.
func (d *division) divide(addresses []string) []part {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.asked >= maxRequests {
		return nil
	}
	half := len(addresses) / 2
	return []part{{addresses: addresses[:half], of: d}, {addresses: addresses[half:], of: d}}
}

func (d *division) blame(address string, because error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.blamed, d.because = append(d.blamed, address), because
}

// end says that a request ended, after which so many parts wait. It returns the
// contracts to blame once all have been found.
func (d *division) end(parts int) (blamed []string, because error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.asked++
	d.open += parts - 1
	if d.open > 0 {
		return nil, nil
	}
	return d.blamed, d.because
}

// ask asks for a part, and returns the parts in which the rest is to be asked for.
// The error is the provider's, not a contract's.
func (s *Service) ask(ctx context.Context, p part, before map[string]Record) ([]part, error) {
	began := time.Now()
	err := s.request(ctx, p.addresses, func(address string, c *contract) {
		s.queue.finish(address, s.record(c, address, before[address]))
	})
	missing := slices.DeleteFunc(slices.Clone(p.addresses), s.queue.finished)
	switch {
	case len(missing) == 0:
		return nil, nil
	case err == nil:
		return s.leftOut(p, missing, before), nil
	case ctx.Err() != nil || upstream.KindOf(err) == upstream.Overloaded:
		return nil, err
	}
	since := began
	if len(missing) > 1 {
		since = began.Add(-recently)
	}
	if ill := s.checkProvider(ctx, since, missing, err); ill != nil {
		return nil, ill
	}
	if len(missing) > 1 {
		return p.of.divide(missing), nil
	}
	s.queue.finish(missing[0], s.record(nil, missing[0], before[missing[0]]))
	p.of.blame(missing[0], err)
	return nil, nil
}

// leftOut asks again for the contracts that an answer does not mention. The provider has no
// record of a contract that two answers left out, or the one that was for it alone.
func (s *Service) leftOut(p part, missing []string, before map[string]Record) []part {
	if len(missing) < len(p.addresses) || !p.left && len(missing) > 1 {
		return []part{{addresses: missing, left: true, of: p.of}}
	}
	for _, a := range missing {
		s.queue.finish(a, s.record(nil, a, before[a]))
	}
	return nil
}

// request asks the provider once.
func (s *Service) request(ctx context.Context, addresses []string, learn func(string, *contract)) error {
	ctx, cancel := context.WithTimeout(ctx, s.o.Timeout)
	defer cancel()
	start := time.Now()
	err := providers[s.provider.name](ctx, s.provider, addresses, func(address string, c *contract) {
		s.control.answered(address, c != nil)
		learn(address, c)
	})
	if err == nil {
		s.control.answered("", false)
	}
	s.metrics.observe(err, time.Since(start))
	return err
}

// checkProvider returns nil if the provider is well: it answered since the time
// given, or answers for a contract that it described before. Otherwise err, or what
// the provider says now, is why it is not.
func (s *Service) checkProvider(ctx context.Context, since time.Time, but []string, err error) error {
	address := s.control.contract(but)
	if s.control.answeredSince(since) {
		return nil
	}
	if address == "" {
		return err
	}
	failed := s.request(ctx, []string{address}, func(string, *contract) {})
	switch {
	case failed == nil:
		return nil
	case upstream.KindOf(failed) == upstream.Overloaded:
		return failed
	}
	s.control.forget(address)
	return err
}

// noContract is asked for where no contract was described yet: it shows whether
// the provider answers at all.
const noContract = "0x000000000000000000000000000000000000dead"

// A control knows when the provider last answered, and contracts whose description
// is the test of whether it is well.
type control struct {
	mu        sync.Mutex
	last      time.Time
	described [2]string // the last of them, the newest first; one may be what is tested
}

// answered notes an answer for an address, or for none, and whether that was a
// description.
func (c *control) answered(address string, described bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = time.Now()
	if described && address != c.described[0] {
		c.described = [2]string{address, c.described[0]}
	}
}

func (c *control) answeredSince(t time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.last.Before(t)
}

// contract is the one to ask for, none of those given; "" if there is no other.
func (c *control) contract(but []string) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, address := range append(c.described[:], noContract) {
		if address != "" && !slices.Contains(but, address) {
			return address
		}
	}
	return ""
}

// forget has another contract asked for next.
func (c *control) forget(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.described {
		if c.described[i] == address {
			c.described[i] = ""
		}
	}
}
