package respond

import (
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/tipcache/tipcache/cache"
)

// PollLifetime is how long shared caches may reuse any response to a poll: the time within which clients that poll
// together send their requests. If nginx could not store the response, its proxy_cache_lock would let the waiting
// clients through one after another.
const PollLifetime = "max-age=1"

// OwnAnswer is the Cache-Control of a response that depends on the client, or on what it has seen: only its own
// browser may keep it, and must revalidate it before use.
const OwnAnswer = "private, no-cache"

// forever is the lifetime of responses that never change.
const forever = 365 * 24 * time.Hour

// longest is the max-age of responses that never change. After a chain is reset, or a response gets another shape, other
// caches must not serve the old one for longer.
const longest = 24 * time.Hour

// freshness sets Age and Cache-Control (RFC 9111), and Cache-Status (RFC 9211).
func (a *Response) freshness(h *headers) {
	left, age := a.lifetime(), int64(0)
	if a.Next == "" && (a.Outcome != cache.Miss || a.Collapsed) { // Age says that the origin was not read for this request
		age = max(0, int64(a.Now.Sub(a.Entry.ReadAt)/time.Second))
		h.setInt("Age", age)
	}
	switch {
	case a.Next != "":
		h.set("Cache-Control", a.audience()+", "+PollLifetime)
	case a.Control != "":
		h.set("Cache-Control", a.Control)
	default:
		h.finish(a.appendControl(h.begin("Cache-Control"), left, age))
	}
	h.finish(a.appendStatus(h.begin("Cache-Status"), left))
}

// AppendCacheStatus appends the value of Cache-Status.
func AppendCacheStatus(b []byte, a *Response) []byte { return a.appendStatus(b, a.lifetime()) }

// SetHeaders sets the headers that say where a response is from, how old it is, and at which block it was read.
func (rs *Responder) SetHeaders(to http.Header, a *Response) {
	h := collect()
	a.freshness(h)
	if a.Entry.Height > 0 && !a.NoHeight {
		h.setInt(HeightHeader, a.Entry.Height)
		a.setSession(h)
	}
	h.writeTo(to)
}

func (a *Response) appendControl(b []byte, left time.Duration, age int64) []byte {
	b = append(append(b, a.audience()...), ", max-age="...)
	marked := a.Outcome == cache.StaleHit || a.Outcome == cache.StaleError || a.CatchingUp || a.Unconfirmed
	if left < time.Second || marked {
		left, age = 0, 0
	}
	// Caches subtract the Age, so max-age includes it.
	b = strconv.AppendInt(b, age+seconds(min(left, longest)), 10)
	switch {
	case a.Private:
	case !a.SharedUntil.IsZero(): // without the age: nginx ignores Age, and would keep the response too long
		b = append(b, ", s-maxage="...)
		b = strconv.AppendInt(b, seconds(max(0, min(left, a.SharedUntil.Sub(a.Now)))), 10)
	case a.Immutable && a.Body == nil && left == forever && a.Entry.Status == http.StatusOK:
		b = append(b, ", immutable"...)
	}
	return b
}

func (a *Response) audience() string {
	if a.Private || a.Reset {
		return "private"
	}
	return "public"
}

// PastExpires reports whether the entry has expired at Now; the cache does not keep such an entry.
func (a *Response) PastExpires() bool {
	return a.Entry.Stamp().PastExpires(func() time.Time { return a.Now })
}

// lifetime returns how much longer the response is fresh. It is negative if the response is stale.
func (a *Response) lifetime() time.Duration {
	e, left := a.Entry, forever
	switch {
	case a.Policy.IsImmutable(e.Stamp()):
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

func (a *Response) appendStatus(b []byte, left time.Duration) []byte {
	b = append(b, "tipcache"...)
	if a.Forward == "" {
		b = append(b, "; hit"...)
	} else {
		b = append(append(b, "; fwd="...), a.Forward...)
		if a.Outcome == cache.Miss && !a.PastExpires() {
			b = append(b, "; stored"...)
		}
		if a.Collapsed {
			b = append(b, "; collapsed"...)
		}
	}
	if left != forever {
		b = strconv.AppendInt(append(b, "; ttl="...), seconds(left), 10)
	}
	return a.appendDetail(b)
}

// appendDetail appends the detail of Cache-Status: the store, and what limits the freshness.
func (a *Response) appendDetail(b []byte) []byte {
	without := b
	b = append(b, `; detail="`...)
	first := len(b)
	add := func(word string) { b = append(append(b, word...), ' ') }
	if a.Store != "" {
		add(a.Store)
	}
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
	if a.Unconfirmed {
		add("unconfirmed")
	}
	if a.Behind > 0 {
		add("behind=" + a.Behind.Truncate(time.Second).String())
	}
	if len(b) == first {
		return without
	}
	b[len(b)-1] = '"' // in place of the last space
	return b
}

// seconds returns whole seconds, rounded down so that no stale response counts as fresh.
func seconds(d time.Duration) int64 { return int64(math.Floor(d.Seconds())) }
