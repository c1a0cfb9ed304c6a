package blocks

import (
	"context"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

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
	Pinned, Min int64 // 0 for none
	EVM         int64 // the execution client's block that must have been seen; 0 for none
	InURL       bool  // the URL names Pinned
}

type heightsKey struct{}

// TakeHeights is the request without the parameters that name blocks, however they are
// spelled: no node, no key of the cache and no log has them. HeightRules.Read finds them
// nonetheless, and those that were taken from a request of which this one is a part.
func TakeHeights(r *http.Request) *http.Request {
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
	if h.Min, err = web.ReadBlock(web.MinHeightHeader, r.Header[web.MinHeightHeader]); err != nil {
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
		err = h.readURL(inURL(r))
	}
	if err == nil && !rules.Loose && h.Pinned > 0 && h.Min > h.Pinned {
		err = web.BadInput("%s is above %s: no answer can be both", web.MinHeightHeader, pinned)
	}
	return h, err
}

// readURL adds the heights that the URL of a request names to those of its headers.
func (h *Heights) readURL(taken url.Values) error {
	h.InURL = len(taken[HeightParameter]) > 0
	if err := agree(&h.Pinned, HeightParameter, taken, web.HeightHeader); err != nil {
		return err
	}
	return agree(&h.Min, MinHeightParameter, taken, web.MinHeightHeader)
}

// agree reads a parameter, all of whose values name one block: that of the header, if the
// request has it.
func agree(height *int64, parameter string, taken url.Values, header string) error {
	for i, value := range taken[parameter] {
		n, err := web.ReadBlock(parameter, []string{value})
		switch {
		case err != nil:
			return err
		case *height > 0 && *height != n && i == 0:
			return web.BadInput("%s is %d and %s is %d: no answer can be both", header, *height, parameter, n)
		case *height > 0 && *height != n:
			return web.BadInput("%s is %d and %d: no answer can be both", parameter, *height, n)
		}
		*height = n
	}
	return nil
}
