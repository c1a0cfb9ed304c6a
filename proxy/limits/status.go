package limits

import (
	"math"
	"strconv"
	"time"
)

// Headers with the state of rate limits (draft-ietf-httpapi-ratelimit-headers).
const (
	StatusHeader = "Ratelimit"
	PolicyHeader = "Ratelimit-Policy"
)

// A Status is the state of one limit for a client. The zero Status means no limit.
type Status struct {
	kind string // address, key or rule
	rate Rate
	decision
}

// Statuses are the states of the limits of the address, the key and an access rule.
type Statuses [ruleIndex + 1]Status

// Limited reports whether there is a limit.
func (s *Status) Limited() bool { return s.rate != Rate{} }

// AppendText appends the value of StatusHeader.
func (s *Status) AppendText(b []byte) []byte {
	b = append(append(append(b, '"'), s.kind...), `";r=`...)
	return appendSeconds(append(strconv.AppendInt(b, int64(s.remaining), 10), ";t="...), s.reset)
}

// AppendPolicy appends the value of PolicyHeader.
func (s *Status) AppendPolicy(b []byte) []byte {
	b = append(append(append(b, '"'), s.kind...), `";q=`...)
	return appendSeconds(append(strconv.AppendInt(b, int64(s.rate.Burst), 10), ";w="...), max(s.rate.window(), time.Second))
}

// appendSeconds rounds up, so that a client that waits this long is not too early.
func appendSeconds(b []byte, d time.Duration) []byte {
	return strconv.AppendInt(b, int64(math.Ceil(d.Seconds())), 10)
}
