package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/cache/codings"
)

// Content is the immutable part of a stored answer. Memory, the shared store's
// codec and every caller hold the same one: no holder may change it, its body
// included.
type Content struct {
	Status int    // HTTP status to answer with
	Type   string // Content-Type
	Link   string // Link header, "" for none
	Body   []byte
	ETag   string // strong validator with its quotes, made from all of the above
	Source uint64 // digest of the origin's raw answer: equal means that shaping it again would give the same content; 0 unknown, or an answer that says nothing beyond its Expires

	// Failed says that the origin told of a failure of its own, and the status says
	// nothing about what was asked. The shared store does not keep it.
	Failed bool

	// Made are the bodies in other codings that [Cache.Encoded] has made since, each
	// nil until then. No other method stores one.
	Made [codings.Count]atomic.Pointer[[]byte]

	variants variants // what else was made of it
}

// NewContent makes a content and its ETag. It keeps body, which must not change
// from then on, or a copy where that saves memory: contents live long, and are
// weighed by what is in them.
func NewContent(status int, typ, link string, body []byte, source uint64) *Content {
	if cap(body) > len(body)+len(body)/8 {
		body = append(make([]byte, 0, len(body)), body...)
	}
	return &Content{
		Status: status, Type: typ, Link: link, Body: body, Source: source,
		ETag: etag(status, typ, link, body),
	}
}

// NewContentAfter is [NewContent] for an answer after e, which is nil for none, and
// [Entry.Renewed] where that gives one.
func NewContentAfter(e *Entry, status int, typ, link string, body []byte, source uint64) *Content {
	if c := e.Renewed(status, typ, link, body, source); c != nil {
		return c
	}
	return NewContent(status, typ, link, body, source)
}

// etag digests what a client can see. The lengths are digested too, so that no
// part can pass for the beginning of the next.
func etag(status int, typ, link string, body []byte) string {
	h := sha256.New()
	var head [24]byte
	binary.LittleEndian.PutUint64(head[0:], uint64(status))
	binary.LittleEndian.PutUint64(head[8:], uint64(len(typ)))
	binary.LittleEndian.PutUint64(head[16:], uint64(len(link)))
	h.Write(head[:])
	h.Write([]byte(typ))
	h.Write([]byte(link))
	h.Write(body)
	return `"` + base64.RawURLEncoding.EncodeToString(h.Sum(nil)[:16]) + `"`
}

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
