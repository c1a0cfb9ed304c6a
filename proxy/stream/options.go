package stream

import (
	"net/url"
	"strings"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
)

// LivePath streams several answers in one connection, because browsers allow six HTTP/1 connections per origin.
const LivePath = "/live"

// MaxLivePaths is the maximum number of paths in one stream.
const MaxLivePaths = 20

// Query parameters that only streams read, because EventSource cannot send headers.
const (
	KeyParameter       = "stream.api_key"
	HeightParameter    = "stream.block_height"
	MinHeightParameter = "stream.min_block_height"
	MinEVMParameter    = "stream.min_evm_block"
	SessionParameter   = "stream.session"
	LastEventParameter = "stream.last_event_id"
	BlocksParameter    = "stream.blocks"
	PathParameter      = "path" // for LivePath
)

const (
	lastEventHeader = "Last-Event-Id"

	// polyfillParameter is sent by EventSource polyfills instead of the header.
	polyfillParameter = "lastEventId"
)

// optionHeaders maps each option to the header that it replaces.
var optionHeaders = map[string]string{
	KeyParameter:       limits.KeyHeader,
	HeightParameter:    respond.HeightHeader,
	MinHeightParameter: respond.MinHeightHeader,
	MinEVMParameter:    respond.MinEVMHeader,
	SessionParameter:   session.Header,
	LastEventParameter: lastEventHeader,
}

// FilterOption is a [web.ParameterFilter] of the parameters of streams and polls. It removes stream.* and since in any letter
// case, and lastEventId. It also removes their values, which may be secret, from the query of a path given to LivePath.
func FilterOption(name, rawValue string) (as, instead string) {
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

// withoutSecrets returns the path parameter with the values of stream parameters removed from its own query; "" if
// there are none. LivePath refuses such a path and names the parameter.
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
	return strings.HasPrefix(strings.ToLower(name), "stream.") || strings.EqualFold(name, SinceParameter) || name == polyfillParameter
}

// OptionsAsHeaders sets the options of a request as its headers. A header that the client sent takes precedence. Of
// several values, it sets the last: [Handler.Route] refuses different values, except of LastEventParameter, to which
// polyfills append a newer id.
func OptionsAsHeaders(r *web.Request) {
	if len(r.Options) == 0 {
		return
	}
	r.Request = r.Clone(r.Context())
	for name, header := range optionHeaders {
		if values := web.Given(r.Options[name]); len(values) > 0 && len(web.Given(r.Header[header])) == 0 {
			r.Header[header] = values[len(values)-1:]
		}
	}
}

// checkOptions returns BadInput if a request has different values of an option other than LastEventParameter.
func checkOptions(r *web.Request) error {
	for _, name := range []string{KeyParameter, HeightParameter, MinHeightParameter, MinEVMParameter, SessionParameter, BlocksParameter} {
		values := web.Given(r.Options[name])
		if len(values) == 0 {
			continue
		}
		err := web.OneValue(name, values)
		if err != nil && name == KeyParameter { // a secret
			return failure.BadInput("%s is given with different values; expected one value", name)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
