package stream

import (
	"context"
	"net/http"
	"net/url"
	"strings"

	"github.com/tipcache/tipcache/proxy/web"
)

// LivePath streams several answers in one connection: browsers allow six of those
// to an origin over HTTP/1.
const LivePath = "/live"

// MaxLivePaths bounds the answers in one stream.
const MaxLivePaths = 20

// Names of the query parameters that only streams read: EventSource cannot send
// headers.
const (
	KeyParameter       = "stream.api_key"
	HeightParameter    = "stream.block_height"
	MinHeightParameter = "stream.min_block_height"
	MinEVMParameter    = "stream.min_evm_block"
	SessionParameter   = "stream.session"
	LastEventParameter = "stream.last_event_id"
	BlocksParameter    = "stream.blocks"
	PathParameter      = "path" // of LivePath
)

const lastEventHeader = "Last-Event-Id"

// headerOf names the headers that parameters stand for.
var headerOf = map[string]string{
	KeyParameter:       web.APIKeyHeader,
	HeightParameter:    web.HeightHeader,
	MinHeightParameter: web.MinHeightHeader,
	MinEVMParameter:    web.MinEVMHeader,
	SessionParameter:   web.SessionHeader,
	LastEventParameter: lastEventHeader,
}

type optionsKey struct{}

// WithoutOptions is the request without the parameters that are a stream's or a poll's, however
// they are spelled. These find them nonetheless; no node, no key of the cache and no log does,
// whatever becomes of the request.
func WithoutOptions(r *http.Request) *http.Request {
	if r.URL.RawQuery == "" {
		return r
	}
	taken := url.Values{}
	query, found := web.EditQuery(r.URL.RawQuery, func(name, rawValue string) (instead string, found bool) {
		switch {
		case strings.EqualFold(name, SinceParameter):
			taken.Add(SinceParameter, web.Unescape(rawValue))
			return "", true
		case isOption(name):
			taken.Add(name, web.Unescape(rawValue))
			return "", true
		case name == PathParameter:
			instead, found = withoutNested(web.Unescape(rawValue))
		}
		return instead, found
	})
	if !found {
		return r
	}
	return web.WithQuery(r.WithContext(context.WithValue(r.Context(), optionsKey{}, taken)), query)
}

// withoutNested is the parameter of a path that has a stream's parameters in its own
// query, without them. A stream of several does not read them there.
func withoutNested(value string) (instead string, found bool) {
	path, query, _ := strings.Cut(value, "?")
	query, found = web.EditQuery(query, func(name, _ string) (string, bool) { return "", isOption(name) })
	return PathParameter + "=" + url.QueryEscape(path+"?"+query), found
}

func isOption(name string) bool {
	const prefix = "stream."
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) || strings.EqualFold(name, SinceParameter)
}

// asHeaders is a request whose options are the headers that they stand for; a header that
// the client has sent goes before its option.
func asHeaders(r *http.Request) *http.Request {
	r = WithoutOptions(r)
	options := optionsOf(r)
	if len(options) == 0 {
		return r
	}
	r = r.Clone(r.Context())
	for name, header := range headerOf {
		if values := web.Given(options[name]); len(values) > 0 && len(web.Given(r.Header[header])) == 0 {
			r.Header[header] = values[:1]
		}
	}
	return r
}

func optionsOf(r *http.Request) url.Values {
	options, _ := r.Context().Value(optionsKey{}).(url.Values)
	return options
}

// IsPoll tells whether a request without its options was a poll.
func IsPoll(r *http.Request) bool { return optionsOf(r)[SinceParameter] != nil }

// wantsBlocks tells whether the client asked for an event at every block.
func wantsBlocks(r *http.Request) bool {
	switch optionsOf(r).Get(BlocksParameter) {
	case "1", "true":
		return true
	}
	return false
}
