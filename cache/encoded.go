package cache

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/cache/codings"
	"github.com/tipcache/tipcache/upstream"
)

// variants holds what is derived from a content after it was stored, except [Content.Encodings]. It counts
// towards the size of the content, and is dropped with it.
type variants struct {
	making    [codings.Count]sync.Mutex  // held while the body is encoded
	wanted    [codings.Count]atomic.Bool // a caller has requested the coding
	derived   atomic.Pointer[derivedContents]
	requested atomic.Bool // see RequestedBefore
	uncached  bool        // Derived did not cache this content
}

// derivedContents are the cached contents derived from one.
type derivedContents struct {
	kept [maxDerived]atomic.Pointer[derivedContent]

	mu      sync.Mutex // guards additions
	next    int        // index of the oldest content, which the next one replaces
	changed time.Time  // when the last one was added
}

type derivedContent struct {
	name    string
	content *Content
}

// maxDerived is the maximum number of contents derived from one. When it is reached, one is replaced at most once per
// derivedPause, so that names which change with every request do not evict the others each time.
const (
	maxDerived   = 4
	derivedPause = time.Second
)

// RequestedBefore reports whether the content was requested before, and records the request.
func (c *Content) RequestedBefore() bool {
	return c.variants.requested.Load() || c.variants.requested.Swap(true)
}

func (c *Content) encoded() bool {
	for i := range c.Encodings {
		if c.Encodings[i].Load() != nil {
			return true
		}
	}
	return false
}

// coded returns the body in a coding, nil if it has not been encoded yet, and records the request.
func (c *Content) coded(coding codings.Coding) []byte {
	made := c.Encodings[coding].Load()
	if made == nil {
		return nil
	}
	if wanted := &c.variants.wanted[coding]; !wanted.Load() {
		wanted.Store(true)
	}
	return *made
}

// Encoded returns the body of a content in a coding. The content is cached under key. The body is encoded once and then kept
// with the content, which increases its size. With peek nothing is encoded: a body that was not encoded before is nil.
//
// The first caller encodes on its own goroutine, or in the background if that is costly. Meanwhile, and while as
// many bodies are being encoded as there are processors, callers receive the plain body: an immediate response is
// worth more than a smaller one. With must, a caller waits instead.
func (c *Cache) Encoded(key string, content *Content, coding codings.Coding, must, peek bool) (body []byte, as codings.Coding) {
	if made := content.coded(coding); made != nil {
		return made, coding
	}
	switch {
	case coding == codings.Identity, content.variants.uncached && !must:
		return content.Body, codings.Identity
	case peek:
		return nil, coding
	}
	content.variants.wanted[coding].Store(true)
	making := &content.variants.making[coding]
	if must {
		making.Lock()
	} else if !making.TryLock() {
		return content.Body, codings.Identity
	}
	if !must && coding.Costly(len(content.Body)) {
		c.encodeLater(key, content, coding)
	} else {
		// Compress quickly if the body may be sent only once, or if its first caller waits for a costly coding.
		quick := content.variants.uncached || must && coding.Costly(len(content.Body)) && !content.encoded()
		c.encode(key, content, coding, quick, must)
	}
	if made := content.coded(coding); made != nil {
		return made, coding
	}
	return content.Body, codings.Identity
}

// encodeDelay delays background encoding until the current response has been written, which needs a processor, too.
const encodeDelay = 2 * time.Millisecond

// encodeLater encodes in the background, unless too many tasks run there.
func (c *Cache) encodeLater(key string, content *Content, coding codings.Coding) {
	if c.o.EncodeAtOnce {
		c.encode(key, content, coding, false, false)
		return
	}
	if c.background.Add(1) > int64(c.o.MaxBackground) || !c.begin() {
		c.background.Add(-1)
		content.variants.making[coding].Unlock()
		return
	}
	time.AfterFunc(encodeDelay, func() {
		defer c.tasks.Done()
		defer c.background.Add(-1)
		upstream.GuardInput(c.o.Logger, "encoding", func() { c.encode(key, content, coding, false, true) })
	})
}

// encode encodes a body and releases its lock, which the caller holds. wait is as in [codings.Encoders.Encode].
func (c *Cache) encode(key string, content *Content, coding codings.Coding, quick, wait bool) {
	defer content.variants.making[coding].Unlock()
	at := &content.Encodings[coding]
	if at.Load() != nil { // another caller was faster
		return
	}
	if body, ok := c.encoders.Encode(coding, content.Body, quick, wait); ok {
		at.Store(&body)
		c.counts.variants[coding].Add(1)
		c.space.Load().memory.reweigh(key)
	}
}

// encodeAgain encodes a new content in the costly codings requested of the previous one, before callers request them.
func (c *Cache) encodeAgain(key string, before, content *Content) {
	for coding := range codings.Count {
		wanted := before.variants.wanted[coding].Load() && coding.Costly(len(content.Body))
		if wanted && content.Encodings[coding].Load() == nil && content.variants.making[coding].TryLock() {
			c.encodeLater(key, content, coding)
		}
	}
}

// Derived returns the content that derive creates from one that is cached under key. The result is cached with that
// content under a name, which increases its size. A few names are cached for each content; at most once a second, a new
// one replaces the oldest. For other names derive is called each time, and the result is encoded only for callers that
// must have a coding, with little compression.
func (c *Cache) Derived(key string, of *Content, name string, derive func(of *Content, name string) *Content) *Content {
	derived := of.variants.derived.Load()
	if derived == nil {
		of.variants.derived.CompareAndSwap(nil, new(derivedContents))
		derived = of.variants.derived.Load()
	}
	if found := derived.get(name); found != nil {
		return found
	}
	made := derive(of, name)
	derived.mu.Lock()
	defer derived.mu.Unlock()
	if found := derived.get(name); found != nil { // another caller was faster
		return found
	}
	at, now := &derived.kept[derived.next], c.o.Now()
	if at.Load() != nil && now.Sub(derived.changed) < derivedPause {
		made.variants.uncached = true
		return made
	}
	at.Store(&derivedContent{name, made})
	derived.next, derived.changed = (derived.next+1)%maxDerived, now
	c.space.Load().memory.reweigh(key)
	return made
}

func (d *derivedContents) get(name string) *Content {
	for i := range d.kept {
		if one := d.kept[i].Load(); one != nil && one.name == name {
			return one.content
		}
	}
	return nil
}
