package indexer

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"math/bits"
	"slices"
	"sort"
	"strings"

	"golang.org/x/crypto/sha3"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// A bloom is the filter of a block's logs: 2048 bits, of which each address and each topic sets three.
type bloom []byte

const bloomBytes = 256

// readBloom parses the logsBloom of a header. It returns nil if it is absent.
func readBloom(s string) bloom {
	b := make(bloom, bloomBytes)
	if !ledger.ReadHex(b, s) {
		return nil
	}
	return b
}

// mayContain reports whether the block may have a log with an address or a topic.
func (b bloom) mayContain(item []byte) bool {
	h := sha3.NewLegacyKeccak256()
	h.Write(item)
	sum := h.Sum(nil)
	for i := 0; i < 6; i += 2 {
		bit := (int(sum[i])<<8 | int(sum[i+1])) % (8 * bloomBytes)
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

// completes reports whether logs of a block are the sent ones and at least one more, of kinds that the block may have.
func (n *Network) completes(b bloom, sent, logs []Event) bool {
	more := without(logs, sent)
	invented := slices.ContainsFunc(more, func(e Event) bool { return !n.promises(b, e.Kind) })
	return len(more) > 0 && !invented && len(without(sent, logs)) == 0
}

// isSparse reports whether so few bits are set that accidental matches are unlikely.
func (b bloom) isSparse() bool {
	set := 0
	for _, eight := range b {
		set += bits.OnesCount8(eight)
	}
	return set <= 8*bloomBytes/16
}

// maxLate is how often the logs of the blocks of a part are requested again while they do not appear.
const maxLate = 5

// maxBroken is the number of headers with missing logs that is an error if no header's logs were complete.
const maxBroken = 3

// checkBlooms requests logs again if a block's header promises more logs than were received. It requests them by the block's
// hash, from another endpoint if there is one, and ignores a response that lacks received logs or has logs that the header
// rules out. Logs may appear later than their header: if both responses lack logs that are likely to exist, it repeats the
// request for some seconds. If they still lack them, the logs do not exist. But if this holds for maxBroken headers and no
// header's logs were complete, the endpoints lack logs.
func (x *Indexer) checkBlooms(ctx context.Context, b *blocks) error {
	late := 0
	for _, n := range slices.Sorted(maps.Keys(b.headers)) {
		h, sent := b.headers[n], b.of(span{n, n})
		if h.bloom == nil || !x.o.Network.isLacking(h.bloom, sent) {
			if h.bloom != nil && len(sent) > 0 {
				x.complete.Add(1)
			}
			continue
		}
		again, err := x.logsOf(ctx, b.source, n, h.hash)
		for ; err == nil && len(again) == len(sent) && h.bloom.isSparse() && late < maxLate; late++ {
			if err = upstream.Sleep(ctx, x.o.Pause<<late); err == nil {
				again, err = x.logsOf(ctx, b.source, n, h.hash)
			}
		}
		switch {
		case err != nil:
			return err
		case x.o.Network.completes(h.bloom, sent, again):
			if err := x.insertLogs(ctx, b, n, again); err != nil {
				return err
			}
		case len(sent) == 0 && h.bloom.isSparse() && x.broken.Add(1) >= maxBroken && x.complete.Load() == 0:
			return fmt.Errorf("%w: no execution client has the logs that the headers of some blocks promise, such as that of block %d", errInconsistent, n)
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

// logsOf reads the events of a block by its hash, from an endpoint other than one unless the others pause, for example because
// they refused the hash. It returns none if no endpoint accepts hashes.
func (x *Indexer) logsOf(ctx context.Context, except *evm.Endpoint, block int64, hash ledger.Hash) (events []Event, err error) {
	refusals, logs := 0, x.getLogsOf(hash)
	err = x.withinGrace(ctx, except, 0, func(e *evm.Session) error {
		_, answers, err := e.AtHeadOnce(ctx, block, logs)
		if err != nil {
			return err
		}
		if refused := answers[0].Err; refused != nil {
			if refusals++; refusals > 2*x.pool.Len() {
				x.log.Warn("no execution client returns the logs of a block by its hash", "block", block, "error", refused)
				return nil
			}
			return refused
		}
		found := blocks{headers: map[int64]header{block: {hash: hash}}}
		if found.events, err = x.readEvents(nil, answers[0].Result, span{block, block}); err == nil {
			err = found.checkHashes(func(int64) evm.Call { return logs })
		}
		events = found.events
		return err
	})
	return events, err
}
