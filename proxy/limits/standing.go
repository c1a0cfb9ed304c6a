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

// AppendText appends the value of StandingHeader.
func (s *Standing) AppendText(b []byte) []byte {
	b = append(append(append(b, '"'), s.kind...), `";r=`...)
	return appendSeconds(append(strconv.AppendInt(b, int64(s.remaining), 10), ";t="...), s.reset)
}

// AppendPolicy appends the value of PolicyHeader.
func (s *Standing) AppendPolicy(b []byte) []byte {
	b = append(append(append(b, '"'), s.kind...), `";q=`...)
	return appendSeconds(append(strconv.AppendInt(b, int64(s.rate.Burst), 10), ";w="...), max(s.rate.window(), time.Second))
}

// appendSeconds rounds up: what is told is never too early.
func appendSeconds(b []byte, d time.Duration) []byte {
	return strconv.AppendInt(b, int64(math.Ceil(d.Seconds())), 10)
}
