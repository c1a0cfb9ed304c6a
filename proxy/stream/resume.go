package stream

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
)

// A stream of several paths resumes by an id with one part per path, separated by dots: the digest of the path XOR the
// digest of the last answer, or "" without an answer. The id is sent in an event without data after each batch of
// answers, so that all clients share the events of the answers. EventSource stores it and dispatches nothing.

// digest identifies the content of an event, equally in all replicas. It has 48 bits.
type digest uint64

const (
	digestBytes = 6
	digestText  = digestBytes * 4 / 3 // base64 characters
)

func digestOf(text []byte) digest {
	sum := sha256.Sum256(text)
	return digest(binary.BigEndian.Uint64(sum[:8]) >> (64 - 8*digestBytes))
}

// idEvent returns the event with the id of all subscriptions; nil for none.
func idEvent(all []subscription) []byte {
	if len(all) == 0 {
		return nil
	}
	event := append(make([]byte, 0, len("id: \n\n")+len(all)*(digestText+1)), "id: "...)
	for i := range all {
		if s := &all[i]; s.answer != 0 {
			event = (s.answer ^ s.name).appendText(event)
		}
		event = append(event, '.')
	}
	return append(event[:len(event)-1], "\n\n"...)
}

// resumeAfter records the answers that the client has according to an id. An id of other paths is ignored.
func resumeAfter(id string, all []subscription) {
	parts := strings.Split(id, ".")
	if len(parts) != len(all) {
		return
	}
	for i := range all {
		if known, ok := parseDigest(parts[i]); ok {
			all[i].answer = known ^ all[i].name
		}
	}
}

func (d digest) appendText(b []byte) []byte {
	var sum [8]byte
	binary.BigEndian.PutUint64(sum[:], uint64(d))
	return base64.RawURLEncoding.AppendEncode(b, sum[8-digestBytes:])
}

func parseDigest(text string) (d digest, ok bool) {
	var sum [8]byte
	if len(text) != digestText {
		return 0, false
	}
	_, err := base64.RawURLEncoding.Decode(sum[8-digestBytes:], []byte(text))
	return digest(binary.BigEndian.Uint64(sum[:])), err == nil
}

// resumeSession sets the first block of the stream. It is the later one of two: the block of the client's session, and the
// highest Min of the sources. It reports whether the session's block was rolled back.
func (cl *client) resumeSession(r *web.Request, sources []Source) (reset bool) {
	tip := cl.h.o.Heights.Tip()
	seen, _ := session.ParseToken(r.Header.Get(session.Header))
	if seen.Height == 0 {
		seen = cl.h.stack.CookieSession(r.Request, cl.h.o.Heights.ChainID(), tip)
	}
	if reset = seen.Replaced(cl.h.o.Heights); !reset {
		cl.minHeight = seen.Height
	}
	for i := range sources {
		cl.minHeight = max(cl.minHeight, sources[i].Min)
	}
	if cl.minHeight == 0 {
		return reset
	}
	cl.blockEvents.epoch, cl.blockEvents.sentHeight = tip.Epoch, cl.minHeight-1
	if tip.Known && (tip.Limit == 0 || cl.minHeight <= tip.Limit) { // otherwise the tip is unknown, or the block is implausibly high
		cl.giveUp = time.Now().Add(cache.Patience(cl.h.o.Patience, tip.Interval))
	}
	return reset
}

// waitForSession returns how long an answer at height must wait for one at the session's block. It is 0 if the
// client has seen no later block or [cache.Patience] is over. Then the client's session no longer counts.
func (cl *client) waitForSession(height int64) (wait time.Duration) {
	if height >= cl.minHeight {
		return 0
	}
	if wait = time.Until(cl.giveUp); wait > 0 {
		return wait
	}
	cl.minHeight, cl.blockEvents.sentHeight = 0, min(cl.blockEvents.sentHeight, cl.h.o.Heights.Tip().Height-1)
	return 0
}
