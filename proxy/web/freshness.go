package web

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cache"
)

// forever is the lifetime told for what never changes.
const forever = 365 * 24 * time.Hour

// longest is how long others may keep what never changes: a chain that is reset,
// or an answer that gets another shape, must not live on with them.
const longest = 24 * time.Hour

// freshness sets the headers that say how old the answer is, how long it will
// serve and which part of the cache it came from: Age, Cache-Control (RFC
// 9111) and Cache-Status (RFC 9211).
func (a *Answer) freshness(h *headers) {
	left, age := a.lifetime(), int64(0)
	if a.Outcome != cache.Miss || a.Collapsed { // an Age says that the origin was not asked for this request
		age = max(0, int64(a.Now.Sub(a.Entry.ReadAt)/time.Second))
		h.setInt("Age", age)
	}
	switch {
	case a.Control != "":
		h.set("Cache-Control", a.Control)
	case left < time.Second || a.Outcome == cache.StaleError || a.CatchingUp:
		h.set("Cache-Control", a.audience()+", max-age=0")
	default:
		// A cache behind us subtracts the Age it is told, so the age goes on top.
		text := append(append(h.begin("Cache-Control"), a.audience()...), ", max-age="...)
		h.finish(strconv.AppendInt(text, age+seconds(min(left, longest)), 10))
	}
	h.finish(a.appendStatus(h.begin("Cache-Status"), left))
}

func (a *Answer) audience() string {
	if a.Private {
		return "private"
	}
	return "public"
}

// lifetime is how much longer the answer is fresh; less than zero when it is
// stale.
func (a *Answer) lifetime() time.Duration {
	e, left := a.Entry, forever
	switch {
	case a.Policy.Fixes(e):
	case !a.Until.IsZero():
		left = a.Until.Sub(a.Now)
	default:
		left = a.Policy.Fresh - a.Now.Sub(e.ReadAt)
	}
	if !e.Expires.IsZero() {
		left = min(left, e.Expires.Sub(a.Now))
	}
	return left
}

// appendStatus renders Cache-Status.
func (a *Answer) appendStatus(b []byte, left time.Duration) []byte {
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
func (a *Answer) appendForward(b []byte) []byte {
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
func (a *Answer) appendDetail(b []byte) []byte {
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
	if a.Seconds {
		add("seconds")
	}
	if a.CatchingUp {
		add("catching-up")
	}
	if a.Behind > 0 {
		add("behind=" + a.Behind.Truncate(time.Second).String())
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

// WantsNoCache tells whether a client may and does ask for an answer that is just
// read from the origin: by Cache-Control with no-cache or max-age=0, as browsers do at a reload.
func (s *Stack) WantsNoCache(request http.Header) bool {
	if !s.o.AllowNoCache {
		return false
	}
	for _, value := range request["Cache-Control"] {
		for directive := range strings.SplitSeq(value, ",") {
			directive = strings.TrimSpace(directive)
			if strings.EqualFold(directive, "no-cache") || strings.EqualFold(directive, "max-age=0") {
				return true
			}
		}
	}
	return false
}

// NoCache makes a query ask for what holds now: for an answer read at the newest
// block, by whichever replica; where no block is known, for one read since the
// request came.
func NoCache(q cache.Query, came time.Time) cache.Query {
	if q.Tip > 0 {
		q.MinHeight = max(q.MinHeight, q.Tip)
	} else {
		q.Since = came
	}
	return q
}
