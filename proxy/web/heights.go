package web

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
)

// Query parameters with the meaning of the headers, for caches that use only the URL as key.
const (
	HeightParameter    = "x-block-height"
	MinHeightParameter = "x-min-block-height"
	MinEVMParameter    = "x-min-evm-block"
)

// Heights are the blocks that a request names: one to read at, the lowest block and the block of the execution chain
// that the response must include, and the block of the session. Each is optional.
type Heights struct {
	Pinned, Min int64         // 0 for none
	EVM         int64         // block of the execution chain that the response must include; 0 for none
	InURL       bool          // Pinned is from the URL
	Session     session.Token // the client's session; zero for none

	Required session.Token // Min as the request named it; an execution block may raise Min
}

// RestoreOptions returns the request's query including the parameters that FilterParameter removed, for a redirect.
func RestoreOptions(r *Request) string {
	return restored(r, slices.Collect(maps.Keys(r.Options))...)
}

// RestorePinned returns the request's query including the height to read at, for a client that has already seen
// the minimum block.
func RestorePinned(r *Request) string { return restored(r, HeightParameter) }

func restored(r *Request, names ...string) string {
	query, parameters := r.URL.RawQuery, url.Values{}
	for _, name := range names {
		if values := r.Options[name]; values != nil {
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
}

// Read reads the headers and parameters of a request that name blocks. The error is BadInput.
func (rules HeightRules) Read(r *Request) (h Heights, err error) {
	h.Required, err = readEither(r, respond.MinHeightHeader, MinHeightParameter, readToken)
	if err == nil {
		h.Session, err = readSession(r.Header[session.Header])
	}
	if err == nil && rules.EVM {
		h.EVM, err = ReadMinEVM(r)
	}
	pinned := respond.HeightHeader
	readPinned := ReadBlock
	if rules.Pinned != nil {
		pinned = "the height to read at"
		readPinned = func(name string, values []string) (int64, error) {
			if name == respond.HeightHeader {
				return rules.Pinned(r.Header)
			}
			return ReadBlock(name, values)
		}
	}
	if err == nil {
		h.Pinned, err = readEither(r, respond.HeightHeader, HeightParameter, readPinned)
	}
	h.Min, h.InURL = h.Required.Height, len(Given(r.Options[HeightParameter])) > 0
	if err == nil && h.Pinned > 0 && h.Min > h.Pinned {
		err = failure.BadInput("%s is above %s: no block satisfies both", respond.MinHeightHeader, pinned)
	}
	return h, err
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

// readToken reads a height or a session token; zero if there is none.
func readToken(name string, values []string) (t session.Token, err error) {
	if values = Given(values); len(values) == 0 {
		return t, nil
	}
	if err := OneValue(name, values); err != nil {
		return t, err
	}
	t, ok := session.ParseToken(values[0])
	if !ok {
		err = failure.BadInput("%s is %q; expected a positive integer, or the %s of an answer", name, Short(values[0]), session.Header)
	}
	return t, err
}

func readSession(values []string) (session.Token, error) {
	if n := len(Given(values)); n > 1 {
		return session.Token{}, failure.BadInput("%s is given %d times: send only the greatest", session.Header, n)
	}
	return readToken(session.Header, values)
}

// ReadBlock returns the block that a header names, 0 for none. A malformed one, for which nodes read the latest, is BadInput.
func ReadBlock(name string, values []string) (int64, error) {
	if values = Given(values); len(values) == 0 {
		return 0, nil
	}
	if err := OneValue(name, values); err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(values[0], 10, 63)
	if err != nil || n == 0 {
		return 0, failure.BadInput("%s is %q; expected a positive integer", name, Short(values[0]))
	}
	return int64(n), nil
}

// ReadMinEVM returns the execution chain's block that a response must include; 0 for none. The error is BadInput.
func ReadMinEVM(r *Request) (block int64, err error) {
	return readEither(r, respond.MinEVMHeader, MinEVMParameter, ReadBlock)
}

// readEither reads a header or the parameter with the same meaning, which a [ParameterFilter] has removed. It returns
// BadInput if they differ. read returns the zero value if there is none.
func readEither[T comparable](r *Request, header, parameter string, read func(name string, values []string) (T, error)) (value T, err error) {
	if value, err = read(header, r.Header[header]); err != nil {
		return value, err
	}
	inURL, err := read(parameter, r.Options[parameter])
	var none T
	if err != nil || value == none {
		return inURL, err
	}
	if inURL != none && inURL != value {
		err = failure.BadInput("%s is %v and %s is %v: they must be equal", header, value, parameter, inURL)
	}
	return value, err
}
