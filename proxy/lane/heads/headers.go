package heads

// A Header is a request header that a handler, a limit, the log or a trace reads. No other header changes a response or
// a log line.
type Header int

// The headers, grouped by use.
const (
	// Part of the key.
	Host Header = iota
	BlockHeight
	CosmosBlockHeight
	MetadataBlockHeight
	MinBlockHeight
	MinEVMBlock
	ForwardedProto // of a trusted proxy; bodies contain URLs
	ContentType    // only for requests with a body

	// Evaluated for each response; not part of the key.
	AcceptEncoding
	IfNoneMatch
	Origin
	APIKey
	ForwardedFor
	RequestID
	UserAgent
	Session
	Traceparent

	// Parse interprets these: they change the message framing or which handler serves the request.
	Accept
	Connection
	ContentLength

	// A request with one of these goes to net/http.
	ContentEncoding // only with a body
	TransferEncoding
	Upgrade
	Expect
	Trailer

	headerCount
)

// Names holds the names in canonical form. It omits headers of requests that never reach the lane: Tracestate, because the
// lane serves no traced request; Last-Event-Id (streams); Access-Control-Request-* (OPTIONS); and
// Authorization (admin listener).
var Names = [headerCount]string{
	Host:                "Host",
	BlockHeight:         "X-Block-Height",
	CosmosBlockHeight:   "X-Cosmos-Block-Height",
	MetadataBlockHeight: "Grpc-Metadata-X-Cosmos-Block-Height",
	MinBlockHeight:      "X-Min-Block-Height",
	MinEVMBlock:         "X-Min-Evm-Block",
	ForwardedProto:      "X-Forwarded-Proto",
	ContentType:         "Content-Type",
	AcceptEncoding:      "Accept-Encoding",
	IfNoneMatch:         "If-None-Match",
	Origin:              "Origin",
	APIKey:              "X-Api-Key",
	ForwardedFor:        "X-Forwarded-For",
	RequestID:           "X-Request-Id",
	UserAgent:           "User-Agent",
	Session:             "X-Session",
	Traceparent:         "Traceparent",
	Accept:              "Accept",
	Connection:          "Connection",
	ContentLength:       "Content-Length",
	ContentEncoding:     "Content-Encoding",
	TransferEncoding:    "Transfer-Encoding",
	Upgrade:             "Upgrade",
	Expect:              "Expect",
	Trailer:             "Trailer",
}

// byLength holds the headers by the length of their names.
var byLength = func() (rows [64][]Header) {
	for h, name := range Names {
		rows[len(name)] = append(rows[len(name)], Header(h))
	}
	return rows
}()

// findHeader looks up a name, ignoring case. The name must be a token.
func findHeader(name string) (h Header, ok bool) {
	if len(name) >= len(byLength) {
		return 0, false
	}
	for _, h := range byLength[len(name)] {
		if hasPrefixFold(name, Names[h]) {
			return h, true
		}
	}
	return 0, false
}

// hasPrefixFold reports whether token starts with name, ignoring case. It requires a token without control bytes and a name
// of letters and hyphens: then bytes that differ only in the bit 0x20 are the same letter.
func hasPrefixFold(token, name string) bool {
	for i := range len(name) {
		if token[i]|0x20 != name[i]|0x20 {
			return false
		}
	}
	return true
}
