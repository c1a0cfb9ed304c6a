package indexer

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"github.com/tidwall/gjson"
	"golang.org/x/crypto/sha3"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// A bloom is the filter of a block's logs: 2048 bits, of which each address and each topic sets three.
type bloom []byte

const bloomBytes = 256

// readBloom parses the logsBloom of a header. It returns nil if it is absent, or if all bits are set, because it then says nothing.
func readBloom(s string) bloom {
	b := make(bloom, bloomBytes)
	if !ledger.ReadHex(b, s) || bytes.Count(b, []byte{0xff}) == bloomBytes {
		return nil
	}
	return b
}

// bloomOf returns the bloom of logs, or an error if one has no valid address or topic.
func bloomOf(logs gjson.Result) (bloom, error) {
	b := make(bloom, bloomBytes)
	for _, log := range logs.Array() {
		for i, item := range append([]gjson.Result{log.Get("address")}, log.Get("topics").Array()...) {
			raw, err := hex.DecodeString(strings.TrimPrefix(item.Str, "0x"))
			if err != nil || i == 0 && len(raw) != len(ledger.Address{}) || i > 0 && len(raw) != len(ledger.Hash{}) {
				return nil, evm.Refusal("a log has the address or topic %.70q", item.Raw)
			}
			for _, bit := range bitsOf(raw) {
				b[bloomBytes-1-bit/8] |= 1 << (bit % 8)
			}
		}
	}
	return b, nil
}

// bitsOf returns the bits of an address or a topic.
func bitsOf(item []byte) (bits [3]int) {
	h := sha3.NewLegacyKeccak256()
	h.Write(item)
	sum := h.Sum(nil)
	for i := range bits {
		bits[i] = (int(sum[2*i])<<8 | int(sum[2*i+1])) % (8 * bloomBytes)
	}
	return bits
}

// mayContain reports whether the block may have a log with an address or a topic.
func (b bloom) mayContain(item []byte) bool {
	for _, bit := range bitsOf(item) {
		if b[bloomBytes-1-bit/8]&(1<<(bit%8)) == 0 {
			return false
		}
	}
	return true
}

// isLacking reports whether a block may have logs of a kind that is not among the received ones.
func (n *Network) isLacking(b bloom, sent []Event) bool {
	var have [kinds]bool
	for i := range sent {
		have[sent[i].Kind] = true
	}
	for kind := range kinds {
		if !have[kind] && n.promises(b, kind) {
			return true
		}
	}
	return false
}

// promises reports whether a block may have logs of a kind.
func (n *Network) promises(b bloom, k kind) bool {
	contracts := n.contracts()
	for topic, sig := range signatures {
		word, _ := hex.DecodeString(strings.TrimPrefix(topic, "0x")) // constants always decode
		if sig.kind == k && b.mayContain(contracts[sig.emitter][:]) && b.mayContain(word) {
			return true
		}
	}
	return false
}

// sampleEvery is the distance between the blocks whose headers are read in ranges without logs. It is prime, so that it shares no
// rhythm with transactions that are sent periodically.
const sampleEvery = 499

// sampleHeaders reads the headers of some blocks that are far from any received log, because all endpoints may lack the logs
// of old blocks. The numbers of these blocks do not depend on the part, so that each attempt reads the same.
func (x *Indexer) sampleHeaders(ctx context.Context, b *blocks) error {
	var numbers []int64
	for n := (b.from + sampleEvery - 1) / sampleEvery * sampleEvery; n <= b.to && !b.whole; n += sampleEvery {
		if _, known := b.headers[n]; !known && len(b.of(span{n - sampleEvery/2, n + sampleEvery/2})) == 0 {
			numbers = append(numbers, n)
		}
	}
	return x.addHeaders(ctx, b, numbers)
}

// checkBlooms reads the logs of a block again if the block's header promises more logs than were received.
func (x *Indexer) checkBlooms(ctx context.Context, b *blocks) error {
	for _, n := range slices.Sorted(maps.Keys(b.headers)) {
		h, sent := b.headers[n], b.of(span{n, n})
		if h.bloom == nil || !x.o.Network.isLacking(h.bloom, sent) {
			continue
		}
		logs, err := x.provenLogs(ctx, b, n)
		if err == nil && len(without(logs, sent)) > 0 {
			err = x.insertLogs(ctx, b, n, logs)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// insertLogs inserts the logs of a block that the source omitted. If not all headers were read, more logs may be missing,
// so it discards the data and doubts the source.
func (x *Indexer) insertLogs(ctx context.Context, b *blocks, n int64, logs []Event) error {
	sent := b.of(span{n, n})
	if !b.whole {
		return x.doubt(ctx, b.source, "omitted logs", n)
	}
	x.log.Warn("execution client omitted logs", "endpoint", b.source.Name(), "block", n, "sent", len(sent), "existing", len(logs))
	for i := range logs {
		logs[i].Time = b.headers[n].time
	}
	at := sort.Search(len(b.events), func(i int) bool { return b.events[i].Block >= n })
	b.events = slices.Replace(b.events, at, at+len(sent), logs...)
	return nil
}

// maxLate is how often the logs of a block are requested again while they do not appear.
const maxLate = 5

// provenLogs returns the events of a block from a response that certainly has all logs of the block, because they make up the
// bloom in the header. It asks endpoints other than the source first. Logs may appear later than their header, so it repeats
// the requests for some seconds, and then fails. It returns nothing if no endpoint accepts such requests.
func (x *Indexer) provenLogs(ctx context.Context, b *blocks, n int64) ([]Event, error) {
	for late := 0; ; late++ {
		for _, except := range []*evm.Endpoint{b.source, nil} {
			events, proven, err := x.logsOf(ctx, except, n, b.headers[n])
			if err != nil || proven {
				return events, err
			}
		}
		if late == maxLate {
			return nil, x.lackLogs(ctx, b, n)
		}
		if err := upstream.Sleep(ctx, x.o.Pause<<late); err != nil {
			return nil, err
		}
	}
}

// lackLogs returns the error of a block whose logs no endpoint has. If the block is old, the logs of earlier blocks may have
// been missing, too. Then lackLogs marks the store as incomplete, unless it is empty.
func (x *Indexer) lackLogs(ctx context.Context, b *blocks, n int64) error {
	if s := x.Status(); !b.whole && n < s.Head-safeDepth && s.Cursor.Chain != 0 && !s.Cursor.Incomplete {
		x.suspectStore(ctx, "no execution client has the logs of a block, and those of counted blocks may have been missing, too", "block", n)
	}
	return fmt.Errorf("%w: no execution client has the logs that the header of block %d promises", errInconsistent, n)
}

// logsOf returns the events of a block, and whether these are certainly all. It reads from an endpoint other than except unless
// the others pause. It requests all logs of the block by the block's hash, and by its number if the endpoint refuses that. If all
// endpoints refuse both, it returns no events and true.
func (x *Indexer) logsOf(ctx context.Context, except *evm.Endpoint, block int64, h header) (events []Event, proven bool, err error) {
	refusals := 0
	err = x.withinGrace(ctx, except, 0, func(e *evm.Session) error {
		var refused *evm.Failure
		for _, filter := range []map[string]any{{"blockHash": h.hash.String()}, rangeOf(span{block, block})} {
			logs := evm.Call{Method: "eth_getLogs", Params: []any{filter}}
			_, answers, err := e.AtHeadOnce(ctx, block, logs)
			if err != nil {
				return err
			}
			if refused = answers[0].Err; refused == nil {
				events, proven, err = x.readLogs(answers[0].Result, block, h, logs)
				return err
			}
		}
		if refusals++; refusals > 2*x.pool.Len() {
			x.log.Warn("no execution client returns all logs of a block", "block", block, "error", refused)
			proven = true
			return nil
		}
		return refused
	})
	return events, proven, err
}

// readLogs decodes the response to a call for all logs of a block, and reports whether they make up the bloom in its header.
func (x *Indexer) readLogs(logs gjson.Result, block int64, h header, call evm.Call) (events []Event, proven bool, err error) {
	found := blocks{headers: map[int64]header{block: h}}
	if found.events, err = x.readEvents(nil, logs, span{block, block}); err != nil {
		return nil, false, err
	}
	if err := found.checkHashes(func(int64) evm.Call { return call }); err != nil {
		return nil, false, err
	}
	all, err := bloomOf(logs)
	return found.events, bytes.Equal(all, h.bloom), err
}
