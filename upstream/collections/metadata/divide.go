package metadata

import (
	"context"
	"errors"
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

// divide halves what is missing of a part that failed with err, if the provider is well: none
// where that costs too much. A contract that is alone is to blame.
func (s *Service) divide(ctx context.Context, p part, missing []*flight, began time.Time, err error) ([]part, error) {
	alone := len(missing) == 1
	if !alone {
		began = began.Add(-recently)
	}
	if ill := s.checkProvider(ctx, began, missing, err); ill != nil {
		return nil, ill
	}
	d := p.of
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case alone:
		d.blamed, d.because = append(d.blamed, missing[0].address), err
		missing[0].end(s.record(nil, missing[0]))
		return nil, nil
	case d.asked >= maxRequests:
		return nil, nil
	}
	half := len(missing) / 2
	return []part{{flights: missing[:half], of: d}, {flights: missing[half:], of: d}}, nil
}

// leftOut asks again for the contracts that an answer does not mention. The provider has no
// record of a contract that two answers left out, or the one that was for it alone.
func (s *Service) leftOut(p part, missing []*flight) []part {
	if len(missing) < len(p.flights) || !p.left && len(missing) > 1 {
		return []part{{flights: missing, left: true, of: p.of}}
	}
	for _, f := range missing {
		f.end(s.record(nil, f))
	}
	return nil
}

// checkProvider returns nil if the provider is well: it answered since the time
// given, or answers for a contract that it described before. Otherwise err, or what
// the provider says now, is why it is not.
func (s *Service) checkProvider(ctx context.Context, since time.Time, but []*flight, err error) error {
	if s.health.answeredSince(since) {
		return nil
	}
	address := s.health.control(but)
	if address == "" {
		return err
	}
	failed := s.request(ctx, []string{address}, func(int, *contract) {})
	switch {
	case failed == nil:
		return nil
	case upstream.KindOf(failed) == upstream.Overloaded:
		return failed
	}
	s.health.forget(address)
	return err
}
