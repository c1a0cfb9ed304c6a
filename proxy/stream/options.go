package stream

import (
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
	BlocksParameter    = "stream.blocks"
)

const lastEventHeader = "Last-Event-Id"

// optionHeaders maps each option to the header that it replaces.
var optionHeaders = map[string]string{
	KeyParameter:           limits.KeyHeader,
	HeightParameter:        respond.HeightHeader,
	MinHeightParameter:     respond.MinHeightHeader,
	MinEVMParameter:        respond.MinEVMHeader,
	SessionParameter:       session.Header,
	web.LastEventParameter: lastEventHeader,
}

// OptionsAsHeaders sets the options of a request as its headers. A header that the client sent takes precedence. Of
// several values, it sets the last: [Handler.Route] refuses different values, except of web.LastEventParameter, to which
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

// checkOptions returns BadInput if a request has different values of an option other than web.LastEventParameter.
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
