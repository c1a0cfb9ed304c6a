package blocks

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
)

// Query parameters with the meaning of the headers, for caches that use only the URL as key.
const (
	HeightParameter    = "x-block-height"
	MinHeightParameter = "x-min-block-height"
)

// Heights are the blocks that a request names: one to read at, the lowest block and the block of the execution chain
// that the response must include, and the block of the session. Each is optional.
type Heights struct {
	Pinned, Min int64         // 0 for none
	EVM         int64         // block of the execution chain that the response must include; 0 for none
	InURL       bool          // Pinned is from the URL
	Session     session.Token // the client's session; zero for none

	required session.Token // Min as the request named it; an execution block may raise Min
}

// FilterHeight is a [web.ParameterFilter] of the parameters that name blocks, in any letter case. HeightRules.Read still
// finds them.
func FilterHeight(name, _ string) (as, _ string) {
	for _, parameter := range [...]string{HeightParameter, MinHeightParameter, web.MinEVMParameter} {
		if strings.EqualFold(name, parameter) {
			return parameter, ""
		}
	}
	return "", ""
}

// RestoreHeights returns the request's query including the parameters removed by FilterHeight, for a redirect.
func RestoreHeights(r *http.Request) string {
	return restored(r, HeightParameter, MinHeightParameter, web.MinEVMParameter)
}

// RestorePinned returns the request's query including the height to read at, for a client that has already seen
// the minimum block.
func RestorePinned(r *http.Request) string { return restored(r, HeightParameter) }

func restored(r *http.Request, names ...string) string {
	query, parameters := r.URL.RawQuery, url.Values{}
	for _, name := range names {
		if values := web.RemovedParameters(r)[name]; values != nil {
			parameters[name] = values
		}
	}
	if query != "" && len(parameters) > 0 {
		query += "&"
	}
	return query + parameters.Encode()
}

// HeightRules configures how an interface reads the blocks that a request names. The zero value reads our own
// headers and parameters, strictly.
type HeightRules struct {
	Pinned func(http.Header) (int64, error) // reads the headers with the height to read at; nil means respond.HeightHeader alone
	EVM    bool                             // a block of the execution chain may be named, too
	Loose  bool                             // Min may be above Pinned
}

// Read reads the headers and parameters of a request that name blocks. The error is BadInput.
func (rules HeightRules) Read(r *http.Request) (h Heights, err error) {
	minBlock, err := readHeader(respond.MinHeightHeader, r.Header)
	if err != nil {
		return h, err
	}
	if h.Session, err = readHeader(session.Header, r.Header); err != nil {
		return h, err
	}
	if rules.EVM {
		if h.EVM, err = web.ReadMinEVM(r); err != nil {
			return h, err
		}
	}
	pinned := respond.HeightHeader
	if rules.Pinned == nil {
		h.Pinned, err = web.ReadBlock(pinned, r.Header[pinned])
	} else {
		pinned = "the height to read at"
		h.Pinned, err = rules.Pinned(r.Header)
	}
	if err == nil {
		err = h.readURL(web.RemovedParameters(r), minBlock)
	}
	if err == nil && !rules.Loose && h.Pinned > 0 && h.Min > h.Pinned {
		err = failure.BadInput("%s is above %s: no block satisfies both", respond.MinHeightHeader, pinned)
	}
	return h, err
}

// readURL adds the heights in the URL to h, which has the heights in the headers. removed holds the parameters that
// FilterHeight removed from the URL.
func (h *Heights) readURL(removed url.Values, minBlock session.Token) error {
	h.InURL = len(web.Given(removed[HeightParameter])) > 0
	pinned, err := readParameter(session.Token{Height: h.Pinned}, HeightParameter, removed, respond.HeightHeader, readHeight)
	if err != nil {
		return err
	}
	minBlock, err = readParameter(minBlock, MinHeightParameter, removed, respond.MinHeightHeader, readToken)
	h.Pinned, h.Min, h.required = pinned.Height, minBlock.Height, minBlock
	return err
}

// readParameter reads a parameter. All its values must name the same block, and the block of the header if there is one.
func readParameter(block session.Token, parameter string, removed url.Values, header string, read func(name, value string) (session.Token, error)) (session.Token, error) {
	for i, value := range web.Given(removed[parameter]) {
		t, err := read(parameter, value)
		other := block.Height > 0 && block != t
		switch {
		case err != nil:
			return t, err
		case other && i == 0:
			return t, failure.BadInput("%s is %s and %s is %s: they must be equal", header, block, parameter, t)
		case other:
			return t, failure.BadInput("%s is %s and %s: they must be equal", parameter, block, t)
		}
		block = t
	}
	return block, nil
}

// ReadNodeHeight parses a node's height header as nodes do. refusal is the node's text for an invalid height, or
// "". It is answered here because not all nodes refuse it.
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

func readHeight(name, value string) (t session.Token, err error) {
	t.Height, err = web.ReadBlock(name, []string{value})
	return t, err
}

// readToken reads a height or a session token.
func readToken(name, value string) (session.Token, error) {
	t, ok := session.ParseToken(value)
	if !ok {
		return t, failure.BadInput("%s is %q; expected a positive integer, or the %s of an answer", name, web.Short(value), session.Header)
	}
	return t, nil
}

// readHeader reads a height or a session token from a header; zero if there is none.
func readHeader(name string, header http.Header) (session.Token, error) {
	values := web.Given(header[name])
	if len(values) == 0 {
		return session.Token{}, nil
	}
	if name == session.Header && len(values) > 1 {
		return session.Token{}, failure.BadInput("%s is given %d times: send only the greatest", name, len(values))
	}
	if err := web.OneValue(name, values); err != nil {
		return session.Token{}, err
	}
	return readToken(name, values[0])
}
