package cache

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"hash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/cache/codings"
)

// Content is the immutable part of an entry. Memory, the shared store and all callers share it, and none may change it.
type Content struct {
	Status int    // HTTP status to answer with
	Type   string // Content-Type
	Link   string // Link header, "" for none
	Body   []byte
	ETag   string // strong validator with quotes, computed from the fields above
	Source uint64 // digest of the origin's answer, if the body is another: equal digests give equal contents; Lasting for the answer itself; 0 if it is valid only until Expires

	// Failed means that the origin reported a failure of its own, so that the status is no answer to the request.
	// Such an entry is not shared with other replicas, whose format has no field for it.
	Failed bool

	// Encodings are the bodies in other codings, nil until [Cache.Encoded] creates them. No other method stores one.
	Encodings [codings.Count]atomic.Pointer[[]byte]

	variants variants // other derived data
}

// Lasting is the Source of a content whose body is the origin's answer.
const Lasting = 1

// NewContent returns a content with its ETag. It keeps body, which must not change, or a copy if that saves memory.
func NewContent(status int, typ, link string, body []byte, source uint64) *Content {
	if cap(body) > len(body)+len(body)/8 {
		body = append(make([]byte, 0, len(body)), body...)
	}
	return &Content{
		Status: status, Type: typ, Link: link, Body: body, Source: source,
		ETag: etag(status, typ, link, body),
	}
}

// NewContentAfter returns what [Entry.ContentIfSame] returns for the previous entry e (nil for none), or else [NewContent].
func NewContentAfter(e *Entry, status int, typ, link string, body []byte, source uint64) *Content {
	if c := e.ContentIfSame(status, typ, link, body, source); c != nil {
		return c
	}
	return NewContent(status, typ, link, body, source)
}

// etag returns a digest of everything that a client can see, including the lengths, so that no part passes for another.
func etag(status int, typ, link string, body []byte) string {
	d := digests.Get().(*digest) //nolint:forcetypeassert // the pool has no others
	defer digests.Put(d)
	d.Reset()
	d.text = d.text[:0]
	for _, n := range []int{status, len(typ), len(link)} {
		d.text = binary.LittleEndian.AppendUint64(d.text, uint64(n))
	}
	d.text = append(append(d.text, typ...), link...)
	d.Write(d.text)
	d.Write(body)
	d.text = d.Sum(d.text[:0])
	var tag [sha256.Size]byte
	return string(append(base64.RawURLEncoding.AppendEncode(append(tag[:0], '"'), d.text[:16]), '"'))
}

// A digest has what etag needs. It is reused, because every new content needs one.
type digest struct {
	hash.Hash
	text []byte
}

var digests = sync.Pool{New: func() any { return &digest{Hash: sha256.New()} }}

// Entry is a content and when it is valid. Entries are immutable.
type Entry struct {
	*Content
	Height  int64     // newest block at which the content is known to be valid; 0 if unknown or not chain data
	ReadAt  time.Time // when the origin last confirmed it
	Expires time.Time // when the entry becomes absent, or merely stale with Policy.StalePastExpires; zero means that only the policy applies

	// Provisional means that the content may be that of the block after Height, because no later block could be read when
	// the origin was. Such an entry answers requests for block Height only while that is the tip.
	Provisional bool
}

// Confirm returns an entry with the same content that was confirmed at a newer height and time. If e expires, the
// new entry has the same lifetime after at as e had after it was read.
func (e *Entry) Confirm(height int64, at time.Time) *Entry {
	confirmed := &Entry{Content: e.Content, Height: height, ReadAt: at}
	if !e.Expires.IsZero() {
		confirmed.Expires = at.Add(e.Expires.Sub(e.ReadAt))
	}
	return confirmed
}

// ContentIfSame returns e's content with another source, including the validator and encodings, but not the contents
// derived from it. It returns nil if the arguments differ from e's data, or if e is nil.
func (e *Entry) ContentIfSame(status int, typ, link string, body []byte, source uint64) *Content {
	if e == nil || e.Status != status || e.Type != typ || e.Link != link || !bytes.Equal(e.Body, body) {
		return nil
	}
	c := &Content{Status: status, Type: typ, Link: link, Body: e.Body, ETag: e.ETag, Source: source}
	for coding := range e.Encodings {
		c.Encodings[coding].Store(e.Encodings[coding].Load())
	}
	c.variants.requested.Store(e.variants.requested.Load())
	return c
}
