package blocks

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
)

// Names of the query parameters that mean what the headers mean: a cache that keys by
// the URL alone tells such requests apart.
const (
	HeightParameter    = "x-block-height"
	MinHeightParameter = "x-min-block-height"
)

// Heights are the blocks that a request names: at most one to be read at, and one
// that must have been seen.
type Heights struct {
	Pinned, Min int64         // 0 for none
	EVM         int64         // the execution client's block that must have been seen; 0 for none
	InURL       bool          // the URL names Pinned
	Session     session.Token // what the client has seen; zero for none

	minHash string // what the hash of the block before Min begins with; "" for any
}

type heightsKey struct{}

// WithoutHeights is the request without the parameters that name blocks, however they are
// spelled: no node, no key of the cache and no log has them. HeightRules.Read finds them
// nonetheless, and the parameters that were taken from a request of which this one is a part.
func WithoutHeights(r *http.Request) *http.Request {
	if r.URL.RawQuery == "" {
		return r
	}
	var taken url.Values
	query, found := web.EditQuery(r.URL.RawQuery, func(name, rawValue string) (_ string, found bool) {
		for _, parameter := range [...]string{HeightParameter, MinHeightParameter} {
			if strings.EqualFold(name, parameter) {
				if taken == nil {
					taken = maps.Clone(inURL(r))
				}
				if taken == nil {
					taken = url.Values{}
				}
				taken[parameter] = append(slices.Clip(taken[parameter]), web.Unescape(rawValue))
				return "", true
			}
		}
		return "", false
	})
	if !found {
		return r
	}
	return web.WithQuery(r.WithContext(context.WithValue(r.Context(), heightsKey{}, taken)), query)
}

// inURL are the parameters that were taken from a request.
func inURL(r *http.Request) url.Values {
	taken, _ := r.Context().Value(heightsKey{}).(url.Values)
	return taken
}

// RestoreHeights puts the parameters that were taken from a request back into its query, for
// a client that is sent elsewhere.
func RestoreHeights(r *http.Request) string {
	return restored(r, inURL(r))
}

// RestorePinned puts back the height to read at alone, for a client that has seen the other.
func RestorePinned(r *http.Request) string {
	taken := maps.Clone(inURL(r))
	delete(taken, MinHeightParameter)
	return restored(r, taken)
}

func restored(r *http.Request, taken url.Values) string {
	query := r.URL.RawQuery
	if query != "" && len(taken) > 0 {
		query += "&"
	}
	return query + taken.Encode()
}

// HeightRules are how an interface reads the blocks that a request names. The zero value reads
// our own headers and parameters, strictly.
type HeightRules struct {
	Pinned func(http.Header) (int64, error) // reads the headers of the height to read at; nil: web.HeightHeader alone
	EVM    bool                             // the execution client's block may be named, too
	Loose  bool                             // a block that must have been seen may be above the one to read at
}

// Read reads the headers and parameters of a request that name blocks. The error is the client's.
func (rules HeightRules) Read(r *http.Request) (h Heights, err error) {
	least, err := readLeast(r.Header[web.MinHeightHeader])
	if err != nil {
		return h, err
	}
	if h.Session, err = readSession(r.Header[web.SessionHeader]); err != nil {
		return h, err
	}
	if rules.EVM {
		if h.EVM, err = web.ReadBlock(web.MinEVMHeader, r.Header[web.MinEVMHeader]); err != nil {
			return h, err
		}
	}
	pinned := web.HeightHeader
	if rules.Pinned == nil {
		h.Pinned, err = web.ReadBlock(pinned, r.Header[pinned])
	} else {
		pinned = "the height to read at"
		h.Pinned, err = rules.Pinned(r.Header)
	}
	if err == nil {
		err = h.readURL(inURL(r), least)
	}
	if err == nil && !rules.Loose && h.Pinned > 0 && h.Min > h.Pinned {
		err = web.BadInput("%s is above %s: no answer can be both", web.MinHeightHeader, pinned)
	}
	return h, err
}

// readURL adds the heights that the URL of a request names to those of its headers.
func (h *Heights) readURL(taken url.Values, least session.Token) error {
	h.InURL = len(web.Given(taken[HeightParameter])) > 0
	pinned, err := agree(session.Token{Height: h.Pinned}, HeightParameter, taken, web.HeightHeader, readHeight)
	if err != nil {
		return err
	}
	least, err = agree(least, MinHeightParameter, taken, web.MinHeightHeader, readToken)
	h.Pinned, h.Min, h.minHash = pinned.Height, least.Height, least.Hash
	return err
}

// agree reads a parameter, all of whose values name one block: that of the header, if the
// request has it.
func agree(block session.Token, parameter string, taken url.Values, header string, read func(name, value string) (session.Token, error)) (session.Token, error) {
	for i, value := range web.Given(taken[parameter]) {
		t, err := read(parameter, value)
		other := block.Height > 0 && block != t
		switch {
		case err != nil:
			return t, err
		case other && i == 0:
			return t, web.BadInput("%s is %s and %s is %s: no answer can be both", header, block, parameter, t)
		case other:
			return t, web.BadInput("%s is %s and %s: no answer can be both", parameter, block, t)
		}
		block = t
	}
	return block, nil
}

func readHeight(name, value string) (t session.Token, err error) {
	t.Height, err = web.ReadBlock(name, []string{value})
	return t, err
}

// readToken reads a height, or a token.
func readToken(name, value string) (session.Token, error) {
	t, ok := session.Parse(value)
	if !ok {
		return t, web.BadInput("%s is %q; expected a positive integer, or the %s of an answer", name, web.Short(value), web.SessionHeader)
	}
	return t, nil
}

func readLeast(values []string) (session.Token, error) {
	if values = web.Given(values); len(values) == 0 {
		return session.Token{}, nil
	}
	return readToken(web.MinHeightHeader, values[0])
}

func readSession(values []string) (session.Token, error) {
	switch values = web.Given(values); len(values) {
	case 0:
		return session.Token{}, nil
	case 1:
		return readToken(web.SessionHeader, values[0])
	default:
		return session.Token{}, web.BadInput("%s is given %d times: the greatest is enough", web.SessionHeader, len(values))
	}
}
