package indexer

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

type kind int

// The kinds. Registering an IP again emits none of them. Events of other contracts, such as IPAccountRegistered, do not
// count.
const (
	Registered kind = iota // an IP asset was registered
	Minted                 // license tokens were minted
	Raised                 // a dispute was raised
	Judged                 // a dispute was decided
	Cancelled              // a dispute was withdrawn
	Resolved               // a dispute was settled
	Tagged                 // an IP inherited an infringement tag, which creates a dispute that was never raised
	kinds
)

func (k kind) String() string {
	return [...]string{"registered", "minted", "raised", "judged", "cancelled", "resolved", "tagged"}[k]
}

// An Event is a log that counts.
type Event struct {
	Kind  kind
	Block int64
	Index int64     // of the log in its block
	Time  time.Time // of the block; zero if unknown

	BlockHash ledger.Hash // from the log

	IP         ledger.Address // Registered, Minted, Raised, Tagged: the IP
	Collection ledger.Address // Registered: the token contract, which may be one of another chain
	Dispute    ledger.Hash    // Raised, Judged, Cancelled, Resolved, Tagged: the id
	Amount     int64          // Minted: license tokens
}

// A signature describes the logs of an event.
type signature struct {
	kind    kind
	emitter int   // the contract, by its index in Network.contracts
	topics  int64 // number of topics, including the signature
	words   int   // minimum number of 32-byte words of data
}

// signatures holds the events that count by their first topic, the Keccak-256 of the text in the comment.
var signatures = map[string]signature{
	"0x02ad3a2e0356b65fdfe4a73c825b78071ae469db35162978518b8c258abb3767": {Registered, registry, 4, 4}, // IPRegistered(address,uint256,address,uint256,string,string,uint256)
	"0x0d96f072d487d7f8b4891a4e4cf14e8cdad444a34248230085c20808d57caa1a": {Minted, licensing, 4, 4},    // LicenseTokensMinted(address,address,address,uint256,uint256,address,uint256)
	"0x4e5e36f19970922c3ec3bdf165b280da2032e133d27ba5ef4a78e10c8406f1e1": {Raised, disputes, 1, 8},     // DisputeRaised, with a caller
	"0x0d33aef6594f31a48636b65156c5ef95cc55d30bc086f59468bb1461153e8743": {Raised, disputes, 1, 8},     // DisputeRaised, without one
	"0xfa3dcf1b0e225a1550712d56af15c1babdd6997813dfe7559f127361edeb31e3": {Judged, disputes, 1, 3},     // DisputeJudgementSet(uint256,bool,bytes)
	"0xfebcb1416e54dcfc6be64b1ad5531b7ffe4733b94972361567dd8da40e404c03": {Cancelled, disputes, 1, 2},  // DisputeCancelled(uint256,bytes)
	"0xe552ae9fc3589b0b34444687568547a934871d53843ce14f33940335d4d70e71": {Resolved, disputes, 1, 2},   // DisputeResolved(uint256,bytes)
	"0xf0b760f19317a7e4ea4ac34ecddaff62bcecf43c393f3994450d0499e173b327": {Tagged, disputes, 1, 6},     // IpTaggedOnRelatedIpInfringement(uint256,address,address,uint256,bytes32,uint256)
}

// topics are the first topics of the requested logs.
var topics = slices.Sorted(maps.Keys(signatures))

// wordDigits is the number of hex digits of an ABI word.
const wordDigits = 64

// decode appends the events in an array of logs, ordered by position. It drops duplicates and unknown logs. A log that does
// not match its signature is an error, because its event would be lost. Two different events at one position are an
// error, too.
func (n *Network) decode(events []Event, array gjson.Result) (_ []Event, err error) {
	before := len(events)
	array.ForEach(func(_, log gjson.Result) bool {
		var e Event
		var counts bool
		if e, counts, err = n.decodeLog(log); counts {
			events = append(events, e)
		}
		return err == nil
	})
	if err != nil {
		return nil, err
	}
	added, err := inPositionOrder(events[before:])
	return events[:before+len(added)], err
}

var errPosition = errors.New("two different logs at one position")

// inPositionOrder sorts events in place by block and index and drops duplicates.
func inPositionOrder(events []Event) ([]Event, error) {
	position := func(a, b Event) int { return cmp.Or(cmp.Compare(a.Block, b.Block), cmp.Compare(a.Index, b.Index)) }
	if !slices.IsSortedFunc(events, position) {
		slices.SortStableFunc(events, position)
	}
	events = slices.Compact(events)
	for i := 1; i < len(events); i++ {
		if e := &events[i]; position(events[i-1], *e) == 0 {
			return nil, fmt.Errorf("%w: block %d, index %d", errPosition, e.Block, e.Index)
		}
	}
	return events, nil
}

// decodeLog decodes a log. It returns false for a log that does not count.
func (n *Network) decodeLog(log gjson.Result) (e Event, counts bool, err error) {
	contract, err := ParseAddress(log.Get("address").Str)
	if err != nil {
		return e, false, fmt.Errorf("address of a log: %w", err)
	}
	sig, known := signatures[strings.ToLower(log.Get("topics.0").Str)]
	if !known || contract != n.contracts()[sig.emitter] {
		return e, false, nil
	}
	if e, err = decodeEvent(log, sig); err != nil {
		return e, false, fmt.Errorf("a log of %s in block %.20q: %w", sig.kind, log.Get("blockNumber").Str, err)
	}
	return e, true, nil
}

// decodeEvent decodes a log according to its signature.
func decodeEvent(log gjson.Result, sig signature) (e Event, err error) {
	e.Kind = sig.kind
	data, ok := strings.CutPrefix(log.Get("data").Str, "0x")
	switch topics := log.Get("topics.#").Int(); {
	case log.Get("removed").Bool():
		return e, errors.New("it is marked as removed, but blocks are final")
	case topics != sig.topics:
		return e, fmt.Errorf("it has %d topics, not %d", topics, sig.topics)
	case !ok || len(data) < sig.words*wordDigits:
		return e, errors.New("its data is too short")
	}
	if e.Block, err = evm.Quantity(log.Get("blockNumber").Str); err != nil {
		return e, err
	}
	if e.Index, err = evm.Quantity(log.Get("logIndex").Str); err != nil {
		return e, fmt.Errorf("its logIndex: %w", err)
	}
	if e.BlockHash, err = parseHash(log.Get("blockHash").Str); err != nil {
		return e, fmt.Errorf("its blockHash: %w", err)
	}
	if at := log.Get("blockTimestamp").Str; at != "" {
		if e.Time, err = blockTime(at); err != nil {
			return e, err
		}
	}
	return e, e.decodeFields(strings.TrimPrefix(log.Get("topics.2").Str, "0x"), data)
}

// decodeFields decodes the fields of the event's kind from the third topic and the data.
func (e *Event) decodeFields(topic, data string) (err error) {
	word := func(i int) string { return data[i*wordDigits : (i+1)*wordDigits] }
	address := func(to *ledger.Address, word string) {
		if err == nil {
			*to, err = addressWord(word)
		}
	}
	dispute := func(word string) {
		if _, decodeErr := hex.Decode(e.Dispute[:], []byte(word)); decodeErr != nil && err == nil {
			err = fmt.Errorf("dispute id: %w", decodeErr)
		}
	}
	switch e.Kind {
	case Registered:
		address(&e.Collection, topic)
		address(&e.IP, word(0))
	case Minted:
		address(&e.IP, topic)
		if err == nil {
			e.Amount, err = amount(word(1))
		}
	case Raised:
		dispute(word(0))
		address(&e.IP, word(1))
	case Tagged:
		dispute(word(0)) // the new dispute; word 3 is the infringer's
		address(&e.IP, word(2))
	default:
		dispute(word(0))
	}
	return err
}

func addressWord(word string) (a ledger.Address, err error) {
	const padding = "000000000000000000000000"
	digits, ok := strings.CutPrefix(word, padding)
	if !ok || len(digits) != 2*len(a) {
		return a, errors.New("word is not an address")
	}
	_, err = hex.Decode(a[:], []byte(digits))
	return a, err
}

// amount decodes a number, limited to ledger.MaxCount.
func amount(word string) (int64, error) {
	var n ledger.Hash
	if _, err := hex.Decode(n[:], []byte(word)); err != nil {
		return 0, fmt.Errorf("amount: %w", err)
	}
	if [24]byte(n[:24]) != [24]byte{} {
		return ledger.MaxCount, nil
	}
	return int64(min(binary.BigEndian.Uint64(n[24:]), ledger.MaxCount)), nil
}

// maxTime is the end of the year 9999, the last year of times in JSON.
const maxTime = 253402300799

func blockTime(s string) (time.Time, error) {
	n, err := evm.Quantity(s)
	if err != nil || n > maxTime {
		return time.Time{}, fmt.Errorf("%.30q is not a block's time", s)
	}
	return time.Unix(n, 0).UTC(), nil
}

func parseHash(s string) (h ledger.Hash, err error) {
	if !ledger.ReadHex(h[:], s) {
		return ledger.Hash{}, fmt.Errorf("%.70q is not a hash", s)
	}
	return h, nil
}
