package web

import (
	"net/url"
	"slices"
	"strings"
)

// Query parameters of this server, which nodes do not get. Streams and /live describe theirs.
const (
	SinceParameter     = "since"                // makes a GET a poll, which waits until the answer differs from the version that it names
	LastEventParameter = "stream.last_event_id" // of a stream, for the header Last-Event-Id
	PathParameter      = "path"                 // of /live and /batch

	// polyfillParameter is sent by EventSource polyfills instead of the header Last-Event-Id.
	polyfillParameter = "lastEventId"
)

// A ParameterFilter decides whether a query parameter is removed. name is decoded. It returns the name under which
// Options has the parameter, or instead, a pair that replaces it. If both are "", the parameter stays.
type ParameterFilter func(name, rawValue string) (as, instead string)

// FilterParameter is a [ParameterFilter] that removes tipcache's own parameters. These are stream.*, since and the parameters that
// name blocks, in any letter case, and lastEventId. A path parameter of /live may contain a query of its own. FilterParameter removes
// the values of stream.* from that query, because they may be secret.
func FilterParameter(name, rawValue string) (as, instead string) {
	switch {
	case strings.EqualFold(name, SinceParameter):
		return SinceParameter, ""
	case name == polyfillParameter:
		return LastEventParameter, ""
	case isStreamParameter(name):
		return name, ""
	case name == PathParameter:
		return "", withoutSecrets(Unescape(rawValue))
	}
	for _, parameter := range [...]string{HeightParameter, MinHeightParameter, MinEVMParameter} {
		if strings.EqualFold(name, parameter) {
			return parameter, ""
		}
	}
	return "", ""
}

// withoutSecrets returns the path parameter with the values of stream parameters removed from its own query; "" if
// there are none. /live refuses such a path and names the parameter.
func withoutSecrets(value string) (instead string) {
	path, query, _ := strings.Cut(value, "?")
	query, found := EditQuery(query, func(name, _ string) (string, bool) { return url.QueryEscape(name), isStreamParameter(name) })
	if !found {
		return ""
	}
	return PathParameter + "=" + url.QueryEscape(path+"?"+query)
}

// StreamParameterIn returns the name of a parameter of streams or polls that a query has; "" for none.
func StreamParameterIn(query string) (parameter string) {
	EditQuery(query, func(name, _ string) (string, bool) {
		if isStreamParameter(name) {
			parameter = name
		}
		return "", false
	})
	return parameter
}

func isStreamParameter(name string) bool {
	return strings.HasPrefix(strings.ToLower(name), "stream.") || strings.EqualFold(name, SinceParameter) || name == polyfillParameter
}

// RemoveParameters moves the parameters that a filter names from the query to Options, so that nodes, cache keys and logs do
// not have them.
func (r *Request) RemoveParameters(filter ParameterFilter) {
	removed := url.Values{}
	for name, values := range r.Options {
		removed[name] = slices.Clip(values) // appending must not change the values of the outer request
	}
	query, found := EditQuery(r.URL.RawQuery, func(name, rawValue string) (instead string, found bool) {
		as, instead := filter(name, rawValue)
		if as != "" {
			removed[as] = append(removed[as], Unescape(rawValue))
		}
		return instead, as != "" || instead != ""
	})
	if !found {
		return
	}
	u := *r.URL
	u.RawQuery = query
	r.setURL(&u)
	path, _, _ := strings.Cut(r.RequestURI, "?") // as it was sent
	r.Options, r.RequestURI = removed, strings.TrimSuffix(path+"?"+query, "?")
}
