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
	ContentType // only for requests with a body

	// Evaluated for each response; not part of the key.
	AcceptEncoding
	IfNoneMatch
	Origin
	APIKey
	ForwardedFor
	RequestID
	UserAgent
	Session

	// They change the message framing or which handler serves the request.
	Accept
	Connection
	ContentLength
	ContentEncoding
	TransferEncoding
	Upgrade
	Expect
	Trailer

	headerCount
)

// A use says how the lane treats a header.
type use int

const (
	inKey       use = iota // the value is part of the key
	perResponse            // the value is evaluated for each response
	framed                 // Parse interprets the value
	unsupported            // a request with this header goes to net/http
)

// table holds the names in canonical form. It omits headers of requests that never reach the lane: Traceparent and
// Tracestate, because tracing disables the lane; Last-Event-Id (streams); Access-Control-Request-* (OPTIONS); and
// Authorization (admin listener).
var table = [headerCount]struct {
	name string
	use  use
}{
	Host:                {"Host", inKey},
	BlockHeight:         {"X-Block-Height", inKey},
	CosmosBlockHeight:   {"X-Cosmos-Block-Height", inKey},
	MetadataBlockHeight: {"Grpc-Metadata-X-Cosmos-Block-Height", inKey},
	MinBlockHeight:      {"X-Min-Block-Height", inKey},
	MinEVMBlock:         {"X-Min-Evm-Block", inKey},
	ContentType:         {"Content-Type", inKey},
	AcceptEncoding:      {"Accept-Encoding", perResponse},
	IfNoneMatch:         {"If-None-Match", perResponse},
	Origin:              {"Origin", perResponse},
	APIKey:              {"X-Api-Key", perResponse},
	ForwardedFor:        {"X-Forwarded-For", perResponse},
	RequestID:           {"X-Request-Id", perResponse},
	UserAgent:           {"User-Agent", perResponse},
	Session:             {"X-Session", perResponse},
	Accept:              {"Accept", framed},
	Connection:          {"Connection", framed},
	ContentLength:       {"Content-Length", framed},
	ContentEncoding:     {"Content-Encoding", unsupported},
	TransferEncoding:    {"Transfer-Encoding", unsupported},
	Upgrade:             {"Upgrade", unsupported},
	Expect:              {"Expect", unsupported},
	Trailer:             {"Trailer", unsupported},
}

// Names returns the names in the table, in canonical form.
func Names() (names []string) {
	for _, row := range table {
		names = append(names, row.name)
	}
	return names
}

// byLength indexes the table by the length of the name.
var byLength = func() (rows [64][]Header) {
	for h, row := range table {
		rows[len(row.name)] = append(rows[len(row.name)], Header(h))
	}
	return rows
}()

// findHeader looks up a name, ignoring case. The name must be a token.
func findHeader(name string) (h Header, ok bool) {
	if len(name) >= len(byLength) {
		return 0, false
	}
	for _, h := range byLength[len(name)] {
		if equalFold(name, table[h].name) {
			return h, true
		}
	}
	return 0, false
}

// equalFold reports whether token starts with name, ignoring case. It requires a token without control bytes and a name
// of letters and hyphens: then bytes that differ only in the bit 0x20 are the same letter.
func equalFold(token, name string) bool {
	for i := range len(name) {
		if token[i]|0x20 != name[i]|0x20 {
			return false
		}
	}
	return true
}
