package cache

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/cache/ahead"
	"github.com/tipcache/tipcache/cache/codings"
	"github.com/tipcache/tipcache/upstream"
)

// variants are what is made of a content after it was stored, beside [Content.Made].
// They live and weigh as long as it does. All that is in them is immutable too.
type variants struct {
	making  [codings.Count]sync.Mutex  // held by the caller who makes the body in the coding
	wanted  [codings.Count]atomic.Bool // by a caller
	derived atomic.Pointer[derivedContents]
	asked   atomic.Bool // by a request for the whole of it
	passing bool        // a derived content that is not kept
}

// derivedContents are those kept of one content, the oldest first.
type derivedContents struct {
	kept    []derivedContent
	changed time.Time // when the last one came
}

type derivedContent struct {
	name    string
	content *Content
}

// maxDerived bounds the contents derived of one, and derivedLife is how long they stay
// unchanged at least once there are so many: names that change with every request
// cannot make all that is kept be made anew each time.
const (
	maxDerived  = 4
	derivedLife = time.Second
)

// Again tells whether the content was asked for before, and takes note that it was.
func (c *Content) Again() bool {
	return c.variants.asked.Load() || c.variants.asked.Swap(true)
}

// encoded tells whether the body was encoded before.
func (c *Content) encoded() bool {
	for i := range c.Made {
		if c.Made[i].Load() != nil {
			return true
		}
	}
	return false
}

// coded gives the body in a coding, nil where it was not made before, and takes note that it was wanted.
func (c *Content) coded(coding codings.Coding) []byte {
	made := c.Made[coding].Load()
	if made == nil {
		return nil
	}
	if wanted := &c.variants.wanted[coding]; !wanted.Load() {
		wanted.Store(true)
	}
	return *made
}

// Encoded gives the body of content in a coding, which is made once and kept with the content from then
// on: key is the key of its entry, which weighs more now. For a caller who only peeks nothing is made: a
// body that was not made before is nil.
//
// The first caller makes it, on its own goroutine, unless that is costly: then it is made in the background.
// Requests that come while it is being made, or while as many bodies are being encoded as there are
// processors, get the plain body, or may ask for another coding: that at once is worth more to them than a
// smaller one later. A caller who must have the coding waits instead, for no longer than encoding takes.
func (c *Cache) Encoded(key string, content *Content, coding codings.Coding, must, peek bool) (body []byte, as codings.Coding) {
	if made := content.coded(coding); made != nil {
		return made, coding
	}
	switch {
	case coding == codings.Identity, content.variants.passing && !must:
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
		quick := content.variants.passing || must && coding.Costly(len(content.Body)) && !content.encoded()
		c.encode(key, content, coding, quick, must)
	}
	if made := content.coded(coding); made != nil {
		return made, coding
	}
	return content.Body, codings.Identity
}

// encodeDelay is how much later a body is encoded in the background: the answer that was being made
// then has left, and does not wait for a processor that encodes.
const encodeDelay = 2 * time.Millisecond

// encodeLater encodes in the background, unless too much is done there.
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
		_ = upstream.Guard(c.o.Logger, "encoding", func() error {
			c.encode(key, content, coding, false, true)
			return nil
		})
	})
}

// encode makes a coding, of which the caller holds the lock, if there is room for that, or waits for it.
func (c *Cache) encode(key string, content *Content, coding codings.Coding, quick, wait bool) {
	defer content.variants.making[coding].Unlock()
	at := &content.Made[coding]
	if at.Load() != nil { // by the caller before
		return
	}
	if body, ok := c.encoders.Encode(coding, content.Body, quick, wait); ok {
		at.Store(&body)
		c.counts.variants[coding].Add(1)
		c.chain.Load().memory.reweigh(key)
	}
}

// encodeAgain makes of a content what was wanted of the one before, where that takes long and the key
// was asked for often: those who ask next need not wait for it, nor have less.
func (c *Cache) encodeAgain(key string, before *slot, content *Content) {
	if before.hits.Load() < ahead.Often {
		return
	}
	for coding := range codings.Count {
		wanted := before.entry.variants.wanted[coding].Load() && coding.Costly(len(content.Body))
		if wanted && content.Made[coding].Load() == nil && content.variants.making[coding].TryLock() {
			c.encodeLater(key, content, coding)
		}
	}
}

// Derived gives the content that derive makes of one, which is kept with it
// under a name: key is the key of its entry, which weighs more now. A few names
// are kept of each content; another one takes the place of the oldest, once a
// second at the most. For others derive is called each time, and what it gives is
// encoded only for callers who must have it in a coding, and cheaply.
func (c *Cache) Derived(key string, of *Content, name string, derive func(of *Content, name string) *Content) *Content {
	derived := &of.variants.derived
	if found := derived.Load().get(name); found != nil {
		return found
	}
	made := derive(of, name)
	for {
		before := derived.Load()
		if found := before.get(name); found != nil { // by another caller
			return found
		}
		after, ok := before.with(derivedContent{name, made}, c.o.Now())
		if !ok {
			made.variants.passing = true
			return made
		}
		if derived.CompareAndSwap(before, after) {
			c.chain.Load().memory.reweigh(key)
			return made
		}
	}
}

// get gives the content of a name, nil for none.
func (d *derivedContents) get(name string) *Content {
	if d == nil {
		return nil
	}
	for _, one := range d.kept {
		if one.name == name {
			return one.content
		}
	}
	return nil
}

// with gives d and one more, which may take the place of the oldest.
func (d *derivedContents) with(one derivedContent, now time.Time) (after *derivedContents, ok bool) {
	if d == nil {
		return &derivedContents{[]derivedContent{one}, now}, true
	}
	kept := slices.Clone(d.kept)
	if len(kept) == maxDerived {
		if now.Sub(d.changed) < derivedLife {
			return nil, false
		}
		kept = kept[1:]
	}
	return &derivedContents{append(kept, one), now}, true
}
