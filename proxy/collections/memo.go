package collections

import (
	"github.com/maypok86/otter/v2"
)

// Bounds of what is remembered of request bodies, in bytes.
const (
	memoBytes   = 4 << 20
	memoBody    = 16 << 10 // of one: 200 addresses fit; a longer one is parsed each time
	memoListing = 256      // what a listing weighs beside the body
)

// A memo knows what bodies ask for, so that the same bytes need not be parsed
// and validated again: a client's pages send the same few over and over. Only
// valid bodies are remembered.
type memo struct {
	listings *otter.Cache[string, listing]
}

func newMemo() memo {
	return memo{otter.Must(&otter.Options[string, listing]{
		MaximumWeight: memoBytes,
		Weigher:       func(body string, l listing) uint32 { return uint32(memoListing + len(body) + 42*len(l.Addresses)) },
	})}
}

// listing is what a body asks for, by parse if it is not remembered.
func (m memo) listing(body []byte, parse func([]byte) (listing, error)) (listing, error) {
	if len(body) > memoBody {
		return parse(body)
	}
	key := string(body)
	if l, ok := m.listings.GetIfPresent(key); ok {
		return l, nil
	}
	l, err := parse(body)
	if err == nil {
		m.listings.Set(key, l)
	}
	return l, err
}
