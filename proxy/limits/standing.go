package limits

import (
	"math"
	"strconv"
	"time"
)

// What tells a client how it stands (draft-ietf-httpapi-ratelimit-headers).
const (
	StandingHeader = "Ratelimit"
	PolicyHeader   = "Ratelimit-Policy"
)

// A Standing is what one limit says to a client. The zero Standing is of no limit.
type Standing struct {
	kind string // address or key
	rate Rate
	decision
}

// Standings are those of all limits.
type Standings struct{ Address, Key Standing }

// Limited tells whether there is a limit at all.
func (s *Standing) Limited() bool { return s.rate != Rate{} }

// Text is the value of StandingHeader.
func (s *Standing) Text() string {
	return `"` + s.kind + `";r=` + strconv.Itoa(s.remaining) + `;t=` + wholeSeconds(s.reset)
}

// Policy is the value of PolicyHeader.
func (s *Standing) Policy() string {
	return `"` + s.kind + `";q=` + strconv.Itoa(s.rate.Burst) + `;w=` + wholeSeconds(max(s.rate.window(), time.Second))
}

// wholeSeconds rounds up: what is told is never too early.
func wholeSeconds(d time.Duration) string { return strconv.Itoa(int(math.Ceil(d.Seconds()))) }
