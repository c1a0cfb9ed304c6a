package stream

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/session"
)

// A stream of several answers resumes by an id that has a part for each path, in
// their order: the digests of the path and of the last answer in one, or nothing
// where there was no answer yet. Dots stand between the parts. The id is an event
// without data after each batch of answers, so that the answers' own events are the
// same for all clients. EventSource takes note of it and dispatches nothing.

// A digest names what an event tells, alike in all replicas. It has 48 bits.
type digest uint64

const (
	digestBytes = 6
	digestText  = digestBytes * 4 / 3 // characters of base64
)

func digestOf(text []byte) digest {
	sum := sha256.Sum256(text)
	return digest(binary.BigEndian.Uint64(sum[:8]) >> (64 - 8*digestBytes))
}

// idEvent tells what a client has of all paths; nil for no paths.
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

// resumeAfter takes note of what a client has, as an id tells. An unknown id tells
// nothing.
func resumeAfter(id string, all []subscription) {
	parts := strings.Split(id, ".")
	if len(parts) != len(all) {
		return
	}
	for i := range all {
		if told, ok := parseDigest(parts[i]); ok {
			all[i].answer = told ^ all[i].name
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

// A resumption is the block that a client has seen by its session: answers and frames of
// blocks before it wait a little for those of it.
type resumption struct {
	least  int64     // 0 for none, or when it was waited for
	giveUp time.Time // when older ones are told nonetheless
}

// resumeSession takes note of a client's session, and tells whether the chain was set back
// behind it.
func (cl *client) resumeSession(r *http.Request) (reset bool) {
	tip := cl.h.o.Heights.Tip()
	seen, _ := session.ParseToken(r.Header.Get(session.Header))
	if seen.Height == 0 {
		seen = cl.h.stack.CookieSession(r, tip)
	}
	if seen.Height == 0 || seen.Replaced(cl.h.o.Heights) {
		return seen.Height > 0
	}
	cl.least, cl.blockEvents.epoch, cl.blockEvents.told = seen.Height, tip.Epoch, seen.Height-1
	if tip.Known && (tip.Limit == 0 || seen.Height <= tip.Limit) { // else it does not come
		cl.giveUp = time.Now().Add(cache.Patience(cl.h.o.Patience, tip.Interval))
	}
	return false
}

// early is how long what is of a block waits for that of the client's session.
func (cl *client) early(height int64) (wait time.Duration) {
	if height >= cl.least {
		return 0
	}
	if wait = time.Until(cl.giveUp); wait > 0 {
		return wait
	}
	cl.least, cl.blockEvents.told = 0, min(cl.blockEvents.told, cl.h.o.Heights.Tip().Height-1)
	return 0
}
