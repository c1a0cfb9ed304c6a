package stream

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
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
	LastEventParameter: lastEventHeader,
}

type optionsKey struct{}

// TakeOptions is the request without the parameters that are a stream's, however they are
// spelled. A stream finds them nonetheless; no node, no key of the cache and no log does,
// whatever becomes of the request.
func TakeOptions(r *http.Request) *http.Request {
	if r.URL.RawQuery == "" {
		return r
	}
	taken := url.Values{}
	query, found := without(r.URL.RawQuery, func(name, rawValue string) (instead string, found bool) {
		switch {
		case isOption(name):
			taken.Add(name, unescape(rawValue))
			return "", true
		case name == PathParameter:
			instead, found = withoutNested(unescape(rawValue))
		}
		return instead, found
	})
	if !found {
		return r
	}
	r = r.Clone(context.WithValue(r.Context(), optionsKey{}, taken))
	r.URL.RawQuery = query
	r.RequestURI = r.URL.RequestURI()
	return r
}

// withoutNested is the parameter of a path that has a stream's parameters in its own
// query, without them. A stream of several does not read them there.
func withoutNested(value string) (instead string, found bool) {
	path, query, _ := strings.Cut(value, "?")
	query, found = without(query, func(name, _ string) (string, bool) { return "", isOption(name) })
	return PathParameter + "=" + url.QueryEscape(path+"?"+query), found
}

func isOption(name string) bool {
	const prefix = "stream."
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix)
}

// without is a query with something else in place of the pairs that replace finds, or
// nothing. Semicolons, which some take for separators, are such.
func without(query string, replace func(name, rawValue string) (instead string, found bool)) (rest string, replaced bool) {
	var kept []byte
	copied := 0
	for start := 0; start < len(query); {
		end := start + 1
		for end < len(query) && query[end] != '&' && query[end] != ';' {
			end++
		}
		rawName, rawValue, _ := strings.Cut(strings.TrimLeft(query[start:end], "&;"), "=") // the separator is before it
		if instead, found := replace(unescape(rawName), rawValue); found {
			kept = append(kept, query[copied:start]...)
			if instead != "" {
				kept = append(append(kept, '&'), instead...)
			}
			replaced, copied = true, end
		}
		start = end
	}
	if !replaced {
		return query, false
	}
	return strings.TrimLeft(string(append(kept, query[copied:]...)), "&;"), true
}

// unescape decodes what it can: what is malformed is no reason to let a key pass.
func unescape(text string) string {
	if !strings.ContainsAny(text, "%+") {
		return text
	}
	var b strings.Builder
	for i := 0; i < len(text); i++ {
		if text[i] == '%' && i+2 < len(text) {
			if code, err := strconv.ParseUint(text[i+1:i+3], 16, 8); err == nil {
				b.WriteByte(byte(code))
				i += 2
				continue
			}
		}
		if text[i] == '+' {
			b.WriteByte(' ')
		} else {
			b.WriteByte(text[i])
		}
	}
	return b.String()
}

// asHeaders is a request whose options are the headers that they stand for; a header that
// the client has sent goes before its option.
func asHeaders(r *http.Request) *http.Request {
	r = TakeOptions(r)
	options := optionsOf(r)
	if len(options) == 0 {
		return r
	}
	r = r.Clone(r.Context())
	for name, header := range headerOf {
		if values := options[name]; len(values) > 0 && r.Header[header] == nil {
			r.Header[header] = values[:1]
		}
	}
	return r
}

func optionsOf(r *http.Request) url.Values {
	options, _ := r.Context().Value(optionsKey{}).(url.Values)
	return options
}

// wantsBlocks tells whether the client asked for an event at every block.
func wantsBlocks(r *http.Request) bool {
	switch optionsOf(r).Get(BlocksParameter) {
	case "1", "true":
		return true
	}
	return false
}
