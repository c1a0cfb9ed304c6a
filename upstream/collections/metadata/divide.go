package metadata

import (
	"context"
	"errors"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
)

// errRefused is wrapped by errors that a contract may cause while the provider works: a status 4xx or a too large response.
var errRefused = errors.New("refused")

const (
	// maxDivisions is the maximum number of divisions of a batch and its parts: enough to find four bad contracts among a
	// hundred. If there are more, the next batch continues.
	maxDivisions = 32

	// recently is how long a response shows that the provider works, so that a batch may be divided. Before a single
	// contract is blamed, the provider must have responded since the request began.
	recently = time.Second
)

// divide divides the missing contracts of a failed part into halves, unless the provider is down or the batch was divided too
// often. A single contract is blamed for the failure.
func (s *Service) divide(ctx context.Context, p part, missing []*flight, began time.Time, err error) ([]part, error) {
	alone := len(missing) == 1
	switch {
	case !alone:
		began = began.Add(-recently)
	case isOwn(err):
		return nil, err
	}
	if down := s.checkProvider(ctx, began, err); down != nil {
		return nil, down
	}
	switch {
	case alone:
		s.o.Logger.Info("provider refuses a contract, listing it without metadata", "provider", s.provider.name,
			"contract", missing[0].address, "error", err)
		missing[0].end(s.record(nil, missing[0]))
		return nil, nil
	case p.divisions.Add(1) > maxDivisions:
		return nil, nil
	}
	half := len(missing) / 2
	return []part{{flights: missing[:half], divisions: p.divisions}, {flights: missing[half:], divisions: p.divisions}}, nil
}

// retryOmitted requests the contracts again that a response omits. If two responses omit a contract, or a response for it alone,
// the provider has no record of it.
func (s *Service) retryOmitted(p part, missing []*flight) []part {
	if len(missing) < len(p.flights) || !p.omitted && len(missing) > 1 {
		return []part{{flights: missing, omitted: true, divisions: p.divisions}}
	}
	for _, f := range missing {
		f.end(s.record(nil, f))
	}
	return nil
}

// noContract is an address without a contract. Every provider that works responds to a request for it.
const noContract = "0x000000000000000000000000000000000000dead"

// checkProvider returns nil if the provider works: it has responded since a time, or responds for noContract. Otherwise it
// returns the rate limit that the provider reports now, or err. A response that is too large for noContract, too, counts in the
// breaker: the provider sends them without end.
func (s *Service) checkProvider(ctx context.Context, since time.Time, err error) error {
	if s.health.last.Load() >= since.UnixNano() {
		return nil
	}
	failed := s.request(ctx, []string{noContract}, func(int, *Contract) {})
	switch {
	case failed == nil:
		return nil
	case upstream.KindOf(failed) == upstream.Overloaded:
		return failed
	case errors.Is(failed, account.ErrTooLarge):
		return s.provider.bad(errors.New("the response for an address without a contract is too large"))
	default:
		return err
	}
}
