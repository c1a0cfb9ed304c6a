package blocks

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
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
	Pinned, Min int64     // 0 for none
	EVM         int64     // the execution client's block that must have been seen; 0 for none
	InURL       bool      // the URL names Pinned
	Session     web.Token // what the client has seen; zero for none

	minHash string // what the hash of the block before Min begins with; "" for any
}

// TakeHeight is a [web.Taking] of the parameters that name blocks, however they are spelled. HeightRules.Read
// finds them nonetheless.
func TakeHeight(name, _ string) (as, _ string) {
	for _, parameter := range [...]string{HeightParameter, MinHeightParameter} {
		if strings.EqualFold(name, parameter) {
			return parameter, ""
		}
	}
	return "", ""
}

// RestoreHeights puts the parameters that were taken from a request back into its query, for
// a client that is sent elsewhere.
func RestoreHeights(r *http.Request) string { return restored(r, HeightParameter, MinHeightParameter) }

// RestorePinned puts back the height to read at alone, for a client that has seen the other.
func RestorePinned(r *http.Request) string { return restored(r, HeightParameter) }

func restored(r *http.Request, names ...string) string {
	query, back := r.URL.RawQuery, url.Values{}
	for _, name := range names {
		if values := web.Taken(r)[name]; values != nil {
			back[name] = values
		}
	}
	if query != "" && len(back) > 0 {
		query += "&"
	}
	return query + back.Encode()
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
	least, err := readHeader(web.MinHeightHeader, r.Header)
	if err != nil {
		return h, err
	}
	if h.Session, err = readHeader(web.SessionHeader, r.Header); err != nil {
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
		err = h.readURL(web.Taken(r), least)
	}
	if err == nil && !rules.Loose && h.Pinned > 0 && h.Min > h.Pinned {
		err = web.BadInput("%s is above %s: no answer can be both", web.MinHeightHeader, pinned)
	}
	return h, err
}

// readURL adds the heights that the URL of a request names to those of its headers.
func (h *Heights) readURL(taken url.Values, least web.Token) error {
	h.InURL = len(web.Given(taken[HeightParameter])) > 0
	pinned, err := agree(web.Token{Height: h.Pinned}, HeightParameter, taken, web.HeightHeader, readHeight)
	if err != nil {
		return err
	}
	least, err = agree(least, MinHeightParameter, taken, web.MinHeightHeader, readToken)
	h.Pinned, h.Min, h.minHash = pinned.Height, least.Height, least.Hash
	return err
}

// agree reads a parameter, all of whose values name one block: that of the header, if the
// request has it.
func agree(block web.Token, parameter string, taken url.Values, header string, read func(name, value string) (web.Token, error)) (web.Token, error) {
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

// ReadNodeHeight reads the node's own header of a height as the node does; "" is no refusal of its. Not all
// nodes refuse what is no height, so that none is asked.
func ReadNodeHeight(value string) (height int64, refusal string) {
	const invalid = "codespace sdk code 18: invalid request: "
	height, err := strconv.ParseInt(value, 10, 64)
	switch {
	case err != nil:
		return 0, fmt.Sprintf("%sBaseapp.RegisterGRPCServer: invalid height header \"x-cosmos-block-height\": %v", invalid, err)
	case height < 0:
		return 0, invalid + "cannot query with height < 0; please provide a valid height"
	}
	return height, ""
}

func readHeight(name, value string) (t web.Token, err error) {
	t.Height, err = web.ReadBlock(name, []string{value})
	return t, err
}

// readToken reads a height, or a token.
func readToken(name, value string) (web.Token, error) {
	t, ok := web.ParseToken(value)
	if !ok {
		return t, web.BadInput("%s is %q; expected a positive integer, or the %s of an answer", name, web.Short(value), web.SessionHeader)
	}
	return t, nil
}

// readHeader reads a height or a token from the values of a header; zero for none.
func readHeader(name string, header http.Header) (web.Token, error) {
	values := web.Given(header[name])
	if len(values) == 0 {
		return web.Token{}, nil
	}
	if name == web.SessionHeader && len(values) > 1 {
		return web.Token{}, web.BadInput("%s is given %d times: the greatest is enough", name, len(values))
	}
	return readToken(name, values[0])
}
