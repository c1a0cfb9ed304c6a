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

	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// A bloom tells of which contracts and topics a block may have logs, and of which
// it has none: 2048 bits, of which each address and each topic sets three.
type bloom []byte

const bloomBytes = 256

// readBloom reads the logsBloom of a header; nil is that of a client without.
func readBloom(s string) bloom {
	b := make(bloom, bloomBytes)
	if !ledger.ReadHex(b, s) {
		return nil
	}
	return b
}

// may reports whether there can be a log with something, an address or a topic.
func (b bloom) may(something []byte) bool {
	h := sha3.NewLegacyKeccak256()
	h.Write(something)
	sum := h.Sum(nil)
	for i := 0; i < 6; i += 2 {
		bit := (int(sum[i])<<8 | int(sum[i+1])) % (8 * bloomBytes)
		if b[bloomBytes-1-bit/8]&(1<<(bit%8)) == 0 {
			return false
		}
	}
	return true
}

// lacking reports whether a block may have logs of a kind that was not sent.
func (n *Network) lacking(b bloom, sent []Event) bool {
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
		word, _ := hex.DecodeString(strings.TrimPrefix(topic, "0x")) // one of ours
		if sig.kind == k && b.may(contracts[sig.emitter][:]) && b.may(word) {
			return true
		}
	}
	return false
}

// sparse reports whether so few bits are set that hardly any is set by chance.
func (b bloom) sparse() bool {
	set := 0
	for _, eight := range b {
		set += bits.OnesCount8(eight)
	}
	return set <= 8*bloomBytes/16
}

// maxBroken is how many headers may promise logs that nobody has, while none was right.
const maxBroken = 3

// question asks again for the logs of each block whose header was read and promises more than
// were sent: for those of its hash, of another endpoint where there is one. What is
// lacking in both answers is not there, and the header promised too much, unless all headers do.
func (x *Indexer) question(ctx context.Context, b *blocks) error {
	for _, n := range slices.Sorted(maps.Keys(b.headers)) {
		h, sent := b.headers[n], b.of(span{n, n})
		if h.bloom == nil || !x.o.Network.lacking(h.bloom, sent) {
			if h.bloom != nil && len(sent) > 0 {
				x.kept.Add(1)
			}
			continue
		}
		again, err := x.logsOf(ctx, b.source, n, h.hash)
		switch {
		case err != nil:
			return err
		case len(again) > len(sent):
			if err := x.leftOut(ctx, b, n, again); err != nil {
				return err
			}
		case len(sent) == 0 && h.bloom.sparse() && x.broken.Add(1) >= maxBroken && x.kept.Load() == 0:
			return fmt.Errorf("%w: no execution client has the logs that the headers of some blocks promise, such as that of block %d", errInconsistent, n)
		}
	}
	return nil
}

// leftOut has the logs of a block that its source left out take their place. Where not all headers
// were read more may be missing, and the source is doubted.
func (x *Indexer) leftOut(ctx context.Context, b *blocks, n int64, logs []Event) error {
	sent := b.of(span{n, n})
	if !b.whole {
		return x.doubt(ctx, b.source, "left logs out", n)
	}
	x.log.Warn("execution client left out logs", "endpoint", b.source.Name(), "block", n, "sent", len(sent), "there are", len(logs))
	for i := range logs {
		logs[i].Time = b.headers[n].time
	}
	at := sort.Search(len(b.events), func(i int) bool { return b.events[i].Block >= n })
	b.events = slices.Replace(b.events, at, at+len(sent), logs...)
	return nil
}

// logsOf reads the events of the block with a hash of another endpoint; none if no hash is taken.
func (x *Indexer) logsOf(ctx context.Context, than *evm.Endpoint, block int64, hash ledger.Hash) (events []Event, err error) {
	refusals, logs := 0, x.getLogsOf(hash)
	err = x.within(ctx, than, func(e *evm.Session) error {
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
			err = found.agree(func(int64) evm.Call { return logs })
		}
		events = found.events
		return err
	})
	return events, err
}
