package stream

import (
	"net/http"

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

// takeOptions is the request with the parameters that stand for headers as
// those; a header that the client has sent goes before its parameter. The key is
// taken out of the URL, so that it reaches no log.
func takeOptions(r *http.Request) *http.Request {
	query := r.URL.Query()
	found := false
	for name, header := range headerOf {
		if values := query[name]; len(values) > 0 {
			if !found {
				found, r = true, r.Clone(r.Context())
			}
			if _, sent := r.Header[header]; !sent {
				r.Header[header] = values[:1]
			}
		}
	}
	if query.Has(KeyParameter) {
		query.Del(KeyParameter)
		r.URL.RawQuery = query.Encode()
		r.RequestURI = r.URL.RequestURI()
	}
	return r
}

// wantsBlocks tells whether the client asked for an event at every block.
func wantsBlocks(r *http.Request) bool {
	switch r.URL.Query().Get(BlocksParameter) {
	case "1", "true":
		return true
	}
	return false
}
