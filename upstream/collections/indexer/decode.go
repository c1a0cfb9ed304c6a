package indexer

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// wordDigits is how many hex digits a word of the ABI has.
const wordDigits = 64

// decode appends the events of an array of logs. Logs of other events are left
// out. A log that is not what its signature promises is an error: to leave it out
// would be to lose it.
func (n *Network) decode(events []Event, array gjson.Result) (_ []Event, err error) {
	array.ForEach(func(_, log gjson.Result) bool {
		var e Event
		var counts bool
		if e, counts, err = n.decodeLog(log); counts {
			events = append(events, e)
		}
		return err == nil
	})
	return events, err
}

// A rawLog is a log's fields as they came.
type rawLog struct {
	address, data, block, hash, time string
	topics                           [4]string
	count                            int // of topics
	removed                          bool
}

func readLog(log gjson.Result) (raw rawLog) {
	log.ForEach(func(name, value gjson.Result) bool {
		switch name.Str {
		case "address":
			raw.address = value.Str
		case "data":
			raw.data = value.Str
		case "blockNumber":
			raw.block = value.Str
		case "blockHash":
			raw.hash = value.Str
		case "blockTimestamp":
			raw.time = value.Str
		case "removed":
			raw.removed = value.Bool()
		case "topics":
			value.ForEach(func(_, topic gjson.Result) bool {
				if raw.count < len(raw.topics) {
					raw.topics[raw.count] = topic.Str
				}
				raw.count++
				return true
			})
		}
		return true
	})
	return raw
}

func (n *Network) decodeLog(log gjson.Result) (e Event, counts bool, err error) {
	raw := readLog(log)
	contract, err := ParseAddress(raw.address)
	if err != nil {
		return e, false, fmt.Errorf("a log's address: %w", err)
	}
	sig, known := signatures[strings.ToLower(raw.topics[0])]
	if !known || contract != n.contracts()[sig.emitter] {
		return e, false, nil
	}
	e, err = raw.event(sig)
	if err != nil {
		return e, false, fmt.Errorf("a log of %s in block %.20q: %w", sig.kind, raw.block, err)
	}
	return e, true, nil
}

// event reads the parts that the signature promises.
func (raw *rawLog) event(sig signature) (e Event, err error) {
	e.Kind = sig.kind
	data, ok := strings.CutPrefix(raw.data, "0x")
	switch {
	case raw.removed:
		return e, errors.New("it was removed: blocks are final here")
	case raw.count != sig.topics:
		return e, fmt.Errorf("it has %d topics, not %d", raw.count, sig.topics)
	case !ok || len(data) < sig.words*wordDigits:
		return e, errors.New("its data is too short")
	}
	if e.Block, err = evm.Quantity(raw.block); err != nil {
		return e, err
	}
	if raw.hash != "" {
		if e.BlockHash, err = parseHash(raw.hash); err != nil {
			return e, err
		}
	}
	if raw.time != "" {
		if e.Time, err = blockTime(raw.time); err != nil {
			return e, err
		}
	}
	return e, e.read(raw, data)
}

// read reads what the kind has, from topics and from the words of the data.
func (e *Event) read(raw *rawLog, data string) (err error) {
	word := func(i int) string { return data[i*wordDigits : (i+1)*wordDigits] }
	address := func(to *ledger.Address, word string) {
		if err == nil {
			*to, err = addressWord(word)
		}
	}
	dispute := func(word string) {
		if _, decodeErr := hex.Decode(e.Dispute[:], []byte(word)); decodeErr != nil && err == nil {
			err = fmt.Errorf("a dispute id: %w", decodeErr)
		}
	}
	switch e.Kind {
	case Registered:
		address(&e.Collection, strings.TrimPrefix(raw.topics[2], "0x"))
		address(&e.IP, word(0))
	case Minted:
		address(&e.IP, strings.TrimPrefix(raw.topics[2], "0x"))
		if err == nil {
			e.Amount, err = amount(word(1))
		}
	case Raised:
		dispute(word(0))
		address(&e.IP, word(1))
	case Tagged:
		dispute(word(0)) // the one that is born; word 3 is that of the infringer
		address(&e.IP, word(2))
	default:
		dispute(word(0))
	}
	return err
}

// addressWord reads an address that is padded to a word.
func addressWord(word string) (a ledger.Address, err error) {
	const padding = "000000000000000000000000"
	digits, ok := strings.CutPrefix(word, padding)
	if !ok || len(digits) != 2*len(a) {
		return a, errors.New("an address is not one")
	}
	_, err = hex.Decode(a[:], []byte(digits))
	return a, err
}

// amount reads a number, cut to ledger.MaxCount.
func amount(word string) (int64, error) {
	var n ledger.Hash
	if _, err := hex.Decode(n[:], []byte(word)); err != nil {
		return 0, fmt.Errorf("an amount: %w", err)
	}
	if high := n[:24]; !bytes.Equal(high, make([]byte, len(high))) {
		return ledger.MaxCount, nil
	}
	return int64(min(binary.BigEndian.Uint64(n[24:]), ledger.MaxCount)), nil
}

// maxTime is the end of the year 9999, the last that JSON can say.
const maxTime = 253402300799

func blockTime(s string) (time.Time, error) {
	n, err := evm.Quantity(s)
	if err != nil || n > maxTime {
		return time.Time{}, fmt.Errorf("%.30q is not a block's time", s)
	}
	return time.Unix(n, 0).UTC(), nil
}

func parseHash(s string) (h ledger.Hash, err error) {
	if !readHex(h[:], s) {
		return ledger.Hash{}, fmt.Errorf("%.70q is not a hash", s)
	}
	return h, nil
}
