package probe

import (
	"errors"
	"fmt"
)

// Limits are the limits of endpoints. Negative values mean no limit.
type Limits struct {
	MaxBehind   int64   // blocks that 99 % of the samples may be behind
	MaxFailures float64 // share of the samples that may fail, 0 to 1
}

const (
	minSamples = 100  // fewer samples prove nothing
	maxOver    = 0.01 // share of the samples that may be more than MaxBehind blocks behind
)

// ErrFewSamples is the error of a run that is too short, or of an endpoint that names too few blocks, to check the limits.
var ErrFewSamples = errors.New("too few samples to check the limits")

// Check returns an error for each endpoint that exceeds the limits, or an error that wraps ErrFewSamples if none exceeds them
// and an endpoint has too few samples.
func (r *Report) Check(l Limits) error {
	var exceeded, few []error
	for _, e := range r.Endpoints {
		over := shareWhere(e.points, func(blocks int64) bool { return blocks > l.MaxBehind })
		switch {
		case l.MaxBehind < 0 && l.MaxFailures < 0:
		case e.Samples < minSamples:
			few = append(few, fmt.Errorf("%w: %s has %d, want %d", ErrFewSamples, e.Name, e.Samples, minSamples))
		case l.MaxFailures >= 0 && e.FailureShare > l.MaxFailures:
			exceeded = append(exceeded, fmt.Errorf("%s failed %s of %d reads", e.Name, percent(e.FailureShare), e.Samples))
		case l.MaxBehind >= 0 && e.Named < minSamples:
			few = append(few, fmt.Errorf("%w: %s names the block of %d, want %d", ErrFewSamples, e.Name, e.Named, minSamples))
		case l.MaxBehind >= 0 && over > maxOver:
			exceeded = append(exceeded, fmt.Errorf("%s was more than %d blocks behind in %s of %d samples", e.Name, l.MaxBehind, percent(over), e.Named))
		}
	}
	if exceeded != nil {
		return errors.Join(exceeded...)
	}
	return errors.Join(few...)
}

func percent(share float64) string { return fmt.Sprintf("%.4g %%", 100*share) }
