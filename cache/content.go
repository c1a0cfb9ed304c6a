package cache

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"sync/atomic"

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
