package proxy

import (
	"strconv"
	"time"

	"github.com/tipcache/tipcache/cache"
)

// forever is the lifetime told for what never changes.
const forever = 365 * 24 * time.Hour

// freshness sets the headers that say how old the answer is, how long it will
// serve and which part of the cache it came from: Age, Cache-Control (RFC
// 9111) and Cache-Status (RFC 9211).
func (a answer) freshness(h *headers, now time.Time) {
	left, age := a.lifetime(now), int64(0)
	if a.Outcome != cache.Miss || a.Collapsed { // an Age says that the origin was not asked for this request
		age = max(0, int64(now.Sub(a.Entry.ReadAt)/time.Second))
		h.setInt("Age", age)
	}
	switch {
	case a.control != "":
		h.set("Cache-Control", a.control)
	case left == forever:
		h.set("Cache-Control", a.audience()+", max-age=31536000, immutable")
	case left < time.Second || a.Outcome == cache.StaleError:
		h.set("Cache-Control", a.audience()+", max-age=0")
	default:
		// A cache behind us subtracts the Age it is told, so the age goes on top.
		text := append(append(h.begin("Cache-Control"), a.audience()...), ", max-age="...)
		h.finish(strconv.AppendInt(text, age+seconds(left), 10))
	}
	h.finish(a.appendStatus(h.begin("Cache-Status"), left))
}

func (a answer) audience() string {
	if a.private {
		return "private"
	}
	return "public"
}

// lifetime is how much longer the answer is fresh; less than zero when it is
// stale. In blocks it is an estimate: until the block that ends it is expected.
func (a answer) lifetime(now time.Time) time.Duration {
	e, left := a.Entry, forever
	switch {
	case a.policy.Immutable:
	case !a.until.IsZero():
		left = a.until.Sub(now)
	case a.inBlocks():
		since := min(now.Sub(a.tip.Seen), a.tip.Interval)
		left = time.Duration(e.Height+a.policy.FreshBlocks+1-a.tip.Height)*a.tip.Interval - since
	case a.tip.Known: // of a time when it was not, so of any block
		left = 0
	default:
		left = a.policy.Fresh - now.Sub(e.ReadAt)
	}
	if !e.Expires.IsZero() {
		left = min(left, e.Expires.Sub(now))
	}
	return left
}

// inBlocks says that the answer's freshness is measured in blocks.
func (a answer) inBlocks() bool { return a.tip.Known && a.Entry.Height > 0 }

// appendStatus renders Cache-Status.
func (a answer) appendStatus(b []byte, left time.Duration) []byte {
	b = append(b, "tipcache"...)
	if a.Forward == "" {
		b = append(b, "; hit"...)
	} else {
		b = append(append(b, "; fwd="...), a.Forward...)
		b = a.appendForward(b)
	}
	if left != forever {
		b = strconv.AppendInt(append(b, "; ttl="...), seconds(left), 10)
	}
	return a.appendDetail(b)
}

// appendForward says what became of the request that went on to the origin.
func (a answer) appendForward(b []byte) []byte {
	if a.Outcome == cache.Miss {
		b = append(b, "; stored"...)
	}
	if a.Collapsed {
		b = append(b, "; collapsed"...)
	}
	return b
}

// appendDetail names the store, the leave taken to serve stale, and seconds
// where blocks were meant.
func (a answer) appendDetail(b []byte) []byte {
	start, count := len(b), 0
	add := func(word string) {
		if word == "" {
			return
		}
		if count++; count == 1 {
			b = append(b, `; detail="`...)
		} else {
			b = append(b, ' ')
		}
		b = append(b, word...)
	}
	add(a.Store)
	switch a.Outcome {
	case cache.StaleHit:
		add("stale-while-revalidate")
	case cache.StaleError:
		add("stale-if-error")
	}
	if a.seconds {
		add("seconds")
	}
	if a.behind > 0 {
		add("behind=" + a.behind.Truncate(time.Second).String())
	}
	if len(b) == start {
		return b
	}
	return append(b, '"')
}

// seconds rounds down, so that nothing is called fresh that is not.
func seconds(d time.Duration) int64 {
	s := int64(d / time.Second)
	if d < 0 && d%time.Second != 0 {
		s--
	}
	return s
}
