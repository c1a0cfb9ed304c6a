package cache

import (
	"sync"
	"sync/atomic"

	"github.com/tipcache/tipcache/cache/codings"
	"github.com/tipcache/tipcache/cache/derived"
)

// variants are what is made of a content after it was stored: its body in
// other codings, and contents derived from it. They live and weigh as long as
// it does. All that is in them is immutable too.
type variants struct {
	encoded [codings.Count]variant // that of Identity is not used
	derived derived.Set[*Content]
	passing bool // a derived content that is not kept
}

type variant struct {
	body   atomic.Pointer[[]byte] // nil until it is made
	making sync.Mutex             // held by the one who makes it
}

// Encoded gives the body of content in a coding. The first caller makes it,
// on its own goroutine, and it is kept with the content from then on: key is
// the key of its entry, which weighs more now.
//
// ok is false for those who come while it is being made, or while as many
// bodies are being encoded as there are processors: the plain body at once is
// worth more to them than a smaller one later. A caller who must have the coding
// waits instead, for no longer than encoding takes.
func (c *Cache) Encoded(key string, content *Content, coding codings.Coding, must bool) (body []byte, ok bool) {
	if coding == codings.Identity {
		return content.Body, true
	}
	if made := content.variants.encoded[coding].body.Load(); made != nil {
		return *made, true
	}
	if content.variants.passing && !must {
		return nil, false
	}
	return c.encode(key, content, coding, must)
}

// Made gives the coding that Encoded would give the body in, and the body itself
// if it was made before; nothing is made.
func (c *Cache) Made(content *Content, coding codings.Coding, must bool) (body []byte, as codings.Coding) {
	if coding == codings.Identity || content.variants.passing && !must {
		return content.Body, codings.Identity
	}
	if made := content.variants.encoded[coding].body.Load(); made != nil {
		return *made, coding
	}
	return nil, coding
}

func (c *Cache) encode(key string, content *Content, coding codings.Coding, must bool) (body []byte, ok bool) {
	v := &content.variants.encoded[coding]
	if must {
		v.making.Lock()
	} else if !v.making.TryLock() {
		return nil, false
	}
	defer v.making.Unlock()
	if made := v.body.Load(); made != nil { // by the one before
		return *made, true
	}
	if body, ok = c.encoders.Encode(coding, content.Body, content.variants.passing, must); ok {
		v.body.Store(&body)
		c.counts.variants[coding].Add(1)
		c.chain.Load().memory.reweigh(key)
	}
	return body, ok
}

// Derived gives the content that derive makes of one, which is kept with it
// under a name: key is the key of its entry, which weighs more now. A few names
// are kept of each content; another one takes the place of the oldest, once a
// second at the most. For others derive is called each time, and what it gives is
// encoded only for those who must have it so, and cheaply.
func (c *Cache) Derived(key string, of *Content, name string, derive func(of *Content, name string) *Content) *Content {
	derived := &of.variants.derived
	if found, ok := derived.Get(name); ok {
		return found
	}
	made := derive(of, name)
	kept, ok := derived.Add(name, made, c.o.Now())
	switch {
	case !ok:
		made.variants.passing = true
	case kept == made:
		c.chain.Load().memory.reweigh(key)
	}
	return kept
}
