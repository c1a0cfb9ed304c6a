package cache

import (
	"bytes"
	"time"
)

// Entry is a content and what is known about when it holds. Entries are
// immutable too.
type Entry struct {
	*Content
	Height  int64     // newest block the content is known to hold at; 0 = unknown, or not chain data
	ReadAt  time.Time // when the origin last said so
	Expires time.Time // from then on absent, or where the policy says PastExpiry not fresh; zero = the policy alone decides
}

// Confirm returns an entry with the same content, seen to hold at a newer
// height and time. Where e expires, the new entry lives as long after at as e
// did after it was read.
func (e *Entry) Confirm(height int64, at time.Time) *Entry {
	confirmed := &Entry{Content: e.Content, Height: height, ReadAt: at}
	if !e.Expires.IsZero() {
		confirmed.Expires = at.Add(e.Expires.Sub(e.ReadAt))
	}
	return confirmed
}

// Renewed is the content of e for an answer that came of another source and says the same,
// with the validator and the codings that were made of it; nil where the answer says another
// thing, or there is no e.
func (e *Entry) Renewed(status int, typ, link string, body []byte, source uint64) *Content {
	if e == nil || e.Status != status || e.Type != typ || e.Link != link || !bytes.Equal(e.Body, body) {
		return nil
	}
	c := &Content{Status: status, Type: typ, Link: link, Body: e.Body, ETag: e.ETag, Source: source}
	for coding := range e.Made {
		c.Made[coding].Store(e.Made[coding].Load())
	}
	c.variants.asked.Store(e.variants.asked.Load())
	return c
}
