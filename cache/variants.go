package cache

import (
	"slices"
	"sync"
	"sync/atomic"
)

// Coding is a content coding of HTTP: a form that a body can be kept and
// served in.
type Coding int

// The codings.
const (
	Identity Coding = iota // the body as it is
	Gzip
	Zstd
	Brotli

	codings // how many there are
)

// String gives the coding as HTTP names it.
func (c Coding) String() string { return [...]string{"identity", "gzip", "zstd", "br"}[c] }

// variants are what is made of a content after it was stored: its body in
// other codings, and contents derived from it. They live and weigh as long as
// it does. All that is in them is immutable too.
type variants struct {
	encoded [codings]variant // that of Identity is not used
	derived atomic.Pointer[[]derivation]
	passing bool // a derived content that is not kept
}

type variant struct {
	body   atomic.Pointer[[]byte] // nil until it is made
	making sync.Mutex             // held by the one who makes it
}

type derivation struct {
	name    string
	content *Content
}

// maxDerived bounds the contents derived of one.
const maxDerived = 4

// Encoded gives the body of content in a coding. The first caller makes it,
// on its own goroutine, and it is kept with the content from then on: key is
// the key of its entry, which weighs more now.
//
// ok is false for those who come while it is being made, or while as many
// bodies are being encoded as there are processors: the plain body at once is
// worth more to them than a smaller one later. A caller who must have the coding
// waits instead, for no longer than encoding takes.
func (c *Cache) Encoded(key string, content *Content, coding Coding, must bool) (body []byte, ok bool) {
	if coding == Identity {
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
func (c *Cache) Made(content *Content, coding Coding, must bool) (body []byte, as Coding) {
	if coding == Identity || content.variants.passing && !must {
		return content.Body, Identity
	}
	if made := content.variants.encoded[coding].body.Load(); made != nil {
		return *made, coding
	}
	return nil, coding
}

func (c *Cache) encode(key string, content *Content, coding Coding, must bool) (body []byte, ok bool) {
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
	if body, ok = c.encoders.encode(coding, content.Body, must); ok {
		v.body.Store(&body)
		c.counts.variants[coding].Add(1)
		c.chain.Load().memory.reweigh(key)
	}
	return body, ok
}

// Derived gives the content that derive makes of one, which is kept with it
// under a name: key is the key of its entry, which weighs more now. That is done
// for the first few names of each content only; for others derive is called each
// time, and what it gives is encoded only for those who must have it so.
func (c *Cache) Derived(key string, of *Content, name string, derive func(*Content) *Content) *Content {
	var made *Content
	for {
		before := of.variants.derived.Load()
		if found := find(before, name); found != nil {
			return found
		}
		if made == nil {
			made = derive(of)
		}
		var kept []derivation
		if before != nil {
			kept = slices.Clip(*before)
		}
		if len(kept) == maxDerived {
			made.variants.passing = true
			return made
		}
		kept = append(kept, derivation{name, made})
		if of.variants.derived.CompareAndSwap(before, &kept) {
			c.chain.Load().memory.reweigh(key)
			return made
		}
	}
}

func find(derived *[]derivation, name string) *Content {
	if derived == nil {
		return nil
	}
	for _, d := range *derived {
		if d.name == name {
			return d.content
		}
	}
	return nil
}
