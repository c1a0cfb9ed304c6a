package stream

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
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

const (
	lastEventHeader = "Last-Event-Id"

	// polyfillParameter is what EventSource polyfills send in place of the header.
	polyfillParameter = "lastEventId"
)

// headerOf names the headers that parameters stand for.
var headerOf = map[string]string{
	KeyParameter:       limits.KeyHeader,
	HeightParameter:    respond.HeightHeader,
	MinHeightParameter: respond.MinHeightHeader,
	MinEVMParameter:    respond.MinEVMHeader,
	SessionParameter:   session.Header,
	LastEventParameter: lastEventHeader,
}

// TakeOption is a [web.Taking] of the parameters of streams and polls, however they are encoded. It removes the values of
// those in the query of a path that a request names: they may be secret.
func TakeOption(name, rawValue string) (as, instead string) {
	switch {
	case strings.EqualFold(name, SinceParameter):
		return SinceParameter, ""
	case name == polyfillParameter:
		return LastEventParameter, ""
	case isOption(name):
		return name, ""
	case name == PathParameter:
		return "", withoutSecrets(web.Unescape(rawValue))
	}
	return "", ""
}

// withoutSecrets returns the parameter of a path whose own query has options of streams, without their values; "" if it
// has none. Such a path is refused by the name of the option.
func withoutSecrets(value string) (instead string) {
	path, query, _ := strings.Cut(value, "?")
	query, found := web.EditQuery(query, func(name, _ string) (string, bool) { return url.QueryEscape(name), isOption(name) })
	if !found {
		return ""
	}
	return PathParameter + "=" + url.QueryEscape(path+"?"+query)
}

// OptionIn returns the name of an option of streams or polls that a query has; "" for none.
func OptionIn(query string) (option string) {
	web.EditQuery(query, func(name, _ string) (string, bool) {
		if isOption(name) {
			option = name
		}
		return "", false
	})
	return option
}

func isOption(name string) bool {
	const prefix = "stream."
	return len(name) >= len(prefix) && strings.EqualFold(name[:len(prefix)], prefix) || strings.EqualFold(name, SinceParameter) || name == polyfillParameter
}

// OptionsAsHeaders returns the request with its options as the headers that they stand for. A header that
// the client has sent wins over its option.
func OptionsAsHeaders(r *http.Request) *http.Request {
	options := web.Taken(r)
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
