package node

import (
	"net/http"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
)

// A Doubt is how certain it is that other nodes refuse a request in the same way.
type Doubt uint8

const (
	certain  Doubt = iota // the refusal speaks of the request, or of the state at its height: every node says the same
	unproven              // its text is not in the table
	ownLimit              // the refusal speaks of this node and this moment: a limit, a missing index or block, a timeout
)

// refusalCodes are the gRPC codes of refusals. For codes that are not listed, refusalTexts decide.
var refusalCodes = map[codes.Code]Doubt{
	codes.Canceled: ownLimit, codes.DeadlineExceeded: ownLimit, codes.PermissionDenied: ownLimit, codes.ResourceExhausted: ownLimit,
	codes.Aborted: ownLimit, codes.Unavailable: ownLimit, codes.DataLoss: ownLimit, codes.Unauthenticated: ownLimit,
	codes.InvalidArgument: certain, codes.NotFound: certain, codes.AlreadyExists: certain, codes.FailedPrecondition: certain, codes.OutOfRange: certain,
}

// refusalTexts are the texts of refusals with other codes, such as Unknown, Unimplemented and Internal. The first matching row
// decides. A contract may choose a text, so a row must only decide how many nodes are read and how long a refusal is kept.
var refusalTexts = []struct {
	text  *regexp.Regexp
	doubt Doubt
}{
	{sizeLimit, ownLimit},
	{regexp.MustCompile(`out of gas|gas limit exceeded|query gas limit`), ownLimit},
	{regexp.MustCompile(`height \d+ is not available, lowest height is|could not find (?:results|validator set|consensus params) for height|node is not persisting`), ownLimit},
	{noIndex, ownLimit},
	{regexp.MustCompile(`context (?:canceled|deadline exceeded)|Cache error: |(?:leveldb|pebble): closed|too many open files|no space left on device`), ownLimit},
	{regexp.MustCompile(`^codespace (?:undefined code \d+|sdk code (?:1|111222)): `), unproven}, // an internal error, a panic
	{regexp.MustCompile(`^codespace [a-z0-9/_-]+ code \d+: `), certain},
	{regexp.MustCompile(`: (?:authorization not found|unknown subspace|invalid height): unknown request$`), certain}, // of a REST server without gRPC
	{regexp.MustCompile(`^decoding bech32 failed: |^hrp does not match bech32 prefix: |^(?:invalid evidence hash: )?encoding/hex: |^height must be greater than 0, but got `), certain},
	{regexp.MustCompile(`either offset or key is expected, got both|^no delegation for \(address, validator\) tuple|^fee-grant not found`), certain},
	{regexp.MustCompile(`^no query path provided|^expected second parameter to be either|^unknown query: \[|^path should be p2p filter|^proto: |^can't route a broadcast tx message`), certain},
	{regexp.MustCompile(`^query cannot be empty|^page should be within |^runtime error: makeslice: |^empty address (?:string|bytes) is not allowed|^prefixIterator invalid, `), certain},
	{regexp.MustCompile(`^grpc: (?:error unmarshalling request: |compressed flag set )|^(?:unexpected )?EOF$|^malformed (?:method name|grpc-timeout): `), certain},
}

var (
	nilPanic  = regexp.MustCompile(`^runtime error: invalid memory address`) // also of a node that is starting
	sizeLimit = regexp.MustCompile(`message (?:after decompression )?larger than max`)
	noIndex   = regexp.MustCompile(`(?:block|transaction) indexing is disabled`)
)

// maxWraps is the number of wrapped statuses that are read. A contract may nest thousands, each of which repeats the search.
const maxWraps = 16

// noTx begins the text for a transaction that a node does not find. Another one may have indexed it already, or kept it for longer.
const noTx = "tx not found: "

// doubtOf classifies a refusal of an SDK node by its gRPC code and text. The text may contain a status that the module wrapped.
func doubtOf(code codes.Code, text string) Doubt {
	text = text[:min(len(text), maxText)]
	for range maxWraps {
		parts := inRPC.FindStringSubmatch(text)
		if parts == nil {
			break
		}
		code, text = CodeNamed(parts[1]), parts[2]
	}
	if searched, ok := strings.CutPrefix(text, "failed to search for txs: "); ok && doubtOfCall(searched) == certain {
		return certain
	}
	if d, ok := refusalCodes[code]; ok && !strings.HasPrefix(text, noTx) {
		return d
	}
	for _, row := range refusalTexts {
		if row.text.MatchString(text) {
			return row.doubt
		}
	}
	return unproven
}

// doubtOfCall classifies the error of an RPC call, which the REST and gRPC servers of the SDK repeat for searches.
func doubtOfCall(text string) Doubt {
	reason, known := classify(cometRPC, text, 0)
	if known && reason == BadInput && !noIndex.MatchString(text) && !nilPanic.MatchString(text) {
		return certain
	}
	return unproven
}

// Codes in the codespace sdk to which abci_query converts errors of several kinds.
const (
	codeInternal  = 1
	codeUnknown   = 6
	codeOutOfGas  = 11
	codeInvalid   = 18
	codeOfPanic   = 111222
	sdkCodespace  = "sdk"
	noneCodespace = "undefined"
)

// inRPC matches a gRPC status in a text, such as the log of abci_query.
var inRPC = regexp.MustCompile(`(?s)^rpc error: code = (\w+) desc = (.*)$`)

// doubtOfLog classifies a refusal of abci_query.
func doubtOfLog(codespace string, code int64, log string) Doubt {
	converted := slices.Contains([]int64{codeInternal, codeUnknown, codeInvalid, codeOfPanic}, code) && codespace == sdkCodespace
	switch {
	case codespace == sdkCodespace && code == codeOutOfGas:
		return ownLimit
	case converted, codespace == noneCodespace, inRPC.MatchString(log):
		return doubtOf(codes.Unknown, log)
	default:
		return certain
	}
}

// CodeNamed returns the gRPC code with a name, or Unknown.
func CodeNamed(name string) codes.Code {
	for c := codes.Canceled; c <= codes.Unauthenticated; c++ {
		if c.String() == name {
			return c
		}
	}
	return codes.Unknown
}

// isDoubtful reports whether one more node should be asked.
func (a *Answer) isDoubtful() bool {
	return a != nil && (a.Reason == Other || a.Doubt != certain && (a.Reason == Refused || a.Reason == BadInput || a.Reason == NotFound))
}

// agrees reports whether two nodes refuse a request in the same way.
func (a *Answer) agrees(b *Answer) bool {
	return a.Doubt == b.Doubt && a.NodeStatus == b.NodeStatus && a.Text == b.Text
}

// settle returns the result of a fetch. Its error is that of the last node. If an earlier node gave a doubtful answer, and the last
// one none that is better, the client gets the doubtful one. It must not be kept if it speaks of the node or if another node
// says something else. If two nodes agree, or there is no other node for a text that is not known, it is kept.
func (f *fetch) settle(a *Answer, err error) (*Answer, error) {
	first := f.doubtful
	if first == nil || err == nil && !a.isDoubtful() && a.Reason != Pruned && a.Reason != FutureHeight {
		return a, err
	}
	settled, second := *first, err == nil && a != first && a.isDoubtful()
	agreed := second && first.agrees(a)
	if second && a.Doubt < first.Doubt {
		settled = *a
	}
	if settled.Reason == Other { // is kept briefly in any case
		return &settled, nil
	}
	settled.Unkept = !agreed && (second || first.Doubt == ownLimit)
	settled.Brief = f.request.Height > 0 || settled.Code == codes.Internal
	if settled.Doubt == ownLimit && settled.NodeStatus < http.StatusInternalServerError {
		settled.NodeStatus = http.StatusInternalServerError // a bare 429 would mean the client's own rate
	}
	return &settled, nil
}
