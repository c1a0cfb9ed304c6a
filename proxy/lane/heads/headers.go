package heads

// A Header is a row of the table of what handlers, limits, the log and traces read of
// a request's headers. A header without a row changes no answer and no log line.
type Header int

// The headers, by what becomes of them.
const (
	// Their values choose between answers, and are part of the key.
	Host Header = iota
	BlockHeight
	CosmosBlockHeight
	MetadataBlockHeight
	MinBlockHeight
	MinEVMBlock
	ContentType // of a body alone

	// Their values are judged for each answer: they do not count for what is remembered.
	AcceptEncoding
	IfNoneMatch
	Origin
	APIKey
	ForwardedFor
	RequestID
	UserAgent
	Session

	// They change what the message is, or who answers it.
	Accept
	Connection
	ContentLength
	ContentEncoding
	TransferEncoding
	Upgrade
	Expect
	Trailer

	count
)

// A use is what becomes of a header.
type use int

const (
	keyed  use = iota // its value is part of the key
	judged            // its value is judged for each answer
	framed            // Parse understands it, or leaves the request to net/http
	barred            // a request with it is net/http's
)

// table has the names in canonical form. Those of requests that never come to the lane are not
// in it: Traceparent and Tracestate, for the lane is off where traces are collected;
// Last-Event-Id, of streams; Access-Control-Request-*, of OPTIONS; and Authorization, of
// the admin listener.
var table = [count]struct {
	name string
	use  use
}{
	Host:                {"Host", keyed},
	BlockHeight:         {"X-Block-Height", keyed},
	CosmosBlockHeight:   {"X-Cosmos-Block-Height", keyed},
	MetadataBlockHeight: {"Grpc-Metadata-X-Cosmos-Block-Height", keyed},
	MinBlockHeight:      {"X-Min-Block-Height", keyed},
	MinEVMBlock:         {"X-Min-Evm-Block", keyed},
	ContentType:         {"Content-Type", keyed},
	AcceptEncoding:      {"Accept-Encoding", judged},
	IfNoneMatch:         {"If-None-Match", judged},
	Origin:              {"Origin", judged},
	APIKey:              {"X-Api-Key", judged},
	ForwardedFor:        {"X-Forwarded-For", judged},
	RequestID:           {"X-Request-Id", judged},
	UserAgent:           {"User-Agent", judged},
	Session:             {"X-Session", judged},
	Accept:              {"Accept", framed},
	Connection:          {"Connection", framed},
	ContentLength:       {"Content-Length", framed},
	ContentEncoding:     {"Content-Encoding", barred},
	TransferEncoding:    {"Transfer-Encoding", barred},
	Upgrade:             {"Upgrade", barred},
	Expect:              {"Expect", barred},
	Trailer:             {"Trailer", barred},
}

// Names are the names of all rows, in canonical form.
func Names() (names []string) {
	for _, row := range table {
		names = append(names, row.name)
	}
	return names
}

// byLength has the rows by the length of their names.
var byLength = func() (rows [64][]Header) {
	for h, row := range table {
		rows[len(row.name)] = append(rows[len(row.name)], Header(h))
	}
	return rows
}()

// find is the row of a name, in whatever case it is spelled. The name is a token.
func find(name string) (h Header, ok bool) {
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

// equalFold compares the beginning of a text without control bytes with a name of letters and
// hyphens: such bytes that differ in 0x20 alone are the same letter.
func equalFold(token, name string) bool {
	for i := range len(name) {
		if token[i]|0x20 != name[i]|0x20 {
			return false
		}
	}
	return true
}
