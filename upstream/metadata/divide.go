package metadata

import (
	"context"
	"errors"
	"slices"
	"time"
)

// What may be the fault of one of the contracts of a batch. A provider that
// refuses is well. One whose answer makes no sense may be ill: that it describes
// another contract shows that it is not.
var (
	errRefused   = errors.New("refused")   // status 4xx, or an answer that is too large
	errMalformed = errors.New("malformed") // an answer that is not what was asked for
)

// maxRequests is how many requests a batch may be divided into: enough for four
// refused contracts among a hundred. Where there are more, the next batch gets on.
// maxBlind is how many there may be before any of them was answered.
const (
	maxRequests = 64
	maxBlind    = 8
)

// A divider asks for addresses together, and where an answer is refused for each
// half of them, until the addresses that are to blame are alone. Halves of one
// size are asked for before smaller ones, so that their neighbours wait least.
type divider struct {
	s       *Service
	refused []string // addresses that the provider answers nothing for
	cause   error    // of the last of them

	answered bool // the provider has answered something
}

// ask returns nil when every address was learned or is refused.
func (d *divider) ask(ctx context.Context, addresses []string) error {
	groups := [][]string{addresses}
	for asked := 1; len(groups) > 0; asked++ {
		group := groups[0]
		groups = groups[1:]
		err := d.request(ctx, group)
		missing := slices.DeleteFunc(slices.Clone(group), d.s.queue.finished)
		d.answered = d.answered || err == nil || len(missing) < len(group)
		switch {
		case err == nil || len(missing) == 0:
			continue
		case !d.divides(ctx, err, asked):
			d.refused = nil
			return err
		case len(missing) == 1:
			d.refused, d.cause = append(d.refused, missing[0]), err
		default:
			half := len(missing) / 2
			groups = append(groups, missing[:half], missing[half:])
		}
		if asked == maxRequests || !d.answered && len(groups) == 0 {
			return d.end(err)
		}
	}
	return nil
}

// end is the error of a batch that is not asked for to its end. What was refused
// while nothing was answered may be the provider's fault.
func (d *divider) end(err error) error {
	if !d.answered {
		d.refused = nil
	}
	return err
}

// divides reports whether an error may be the fault of one address. Where nothing
// was answered yet, a contract that was described before is the test of that.
func (d *divider) divides(ctx context.Context, err error, asked int) bool {
	switch {
	case !errors.Is(err, errRefused) && !errors.Is(err, errMalformed):
		return false
	case d.answered:
		return true
	}
	if control := d.s.control.Load(); control != nil {
		d.answered = d.request(ctx, []string{*control}) == nil
		return d.answered
	}
	return asked < maxBlind
}

// request asks the provider once.
func (d *divider) request(ctx context.Context, addresses []string) error {
	ctx, cancel := context.WithTimeout(ctx, d.s.o.Timeout)
	defer cancel()
	start := time.Now()
	err := providers[d.s.provider.name](ctx, d.s.provider, addresses, func(address string, c *contract) {
		if c != nil {
			d.s.control.Store(&address)
		}
		d.s.queue.finish(address, c.record(d.s.o.Chain))
	})
	d.s.metrics.observe(err, time.Since(start))
	return err
}
