package devnet

import (
	"cmp"
	_ "embed"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"iter"
	"os"
	"slices"
	"strings"

	"golang.org/x/crypto/sha3"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// logLines are the logs of each kind of transaction. ${name} stands for a word.
//
//go:embed logs.jsonl
var logLines []byte

// A logShape is the template of a log.
type logShape struct {
	Kind, Address string
	Topics        []string
	Data          string
}

// logShapes are the templates of each kind.
var logShapes = func() map[string][]logShape {
	all := map[string][]logShape{}
	for _, shape := range state.Lines[logShape](logLines) {
		all[shape.Kind] = append(all[shape.Kind], shape)
	}
	return all
}()

// An evmLog is one event as a contract emitted it.
type evmLog struct {
	contract string
	topics   []string
	data     string

	block, transaction, index int64
}

// logs yields the logs of a range of blocks, both ends included, in order.
func (l ledger) logs(from, to int64) iter.Seq[evmLog] {
	all := slices.SortedStableFunc(l.happenings(from, to), func(a, b happening) int { return cmp.Compare(a.block, b.block) })
	return func(yield func(evmLog) bool) {
		var transaction, index int64 // indexes of the next one in the block
		for i, h := range all {
			if i > 0 && all[i-1].block != h.block {
				transaction, index = 0, 0
			}
			for _, shape := range logShapes[h.kind] {
				if !yield(shape.log(h.block, transaction, index, func(name string) string { return l.word(h, name) })) {
					return
				}
				index++
			}
			transaction++
		}
	}
}

func (s logShape) log(block, transaction, index int64, word func(name string) string) evmLog {
	log := evmLog{s.Address, nil, os.Expand(s.Data, word), block, transaction, index}
	for _, topic := range s.Topics {
		log.topics = append(log.topics, os.Expand(topic, word))
	}
	return log
}

// word returns the value of a name in the logs of a happening: 32 bytes in hex.
func (l ledger) word(h happening, name string) string {
	switch name {
	case "chain":
		return numberWord(evmChainID)
	case "contract":
		return addressWord(collectionAddress(l.seed, h.collection))
	case "token":
		return h.token()
	case "ip":
		return addressWord(h.ip())
	case "amount":
		return numberWord(uint64(h.amount()))
	case "dispute":
		return numberWord(uint64(h.dispute))
	}
	return numberWord(uint64(l.time(h.block).Unix()))
}

func numberWord(n uint64) string { return fmt.Sprintf("%064x", n) }

func addressWord(address string) string { return strings.Repeat("0", 24) + address[2:] }

// hexText returns raw in the notation of JSON-RPC.
func hexText(raw []byte) string { return "0x" + hex.EncodeToString(raw) }

// appendTo appends a log in the notation of JSON-RPC.
func (g evmLog) appendTo(b []byte, l ledger, blockHash string) []byte {
	return fmt.Appendf(b, `{"address":"%s","topics":["%s"],"data":"%s","blockNumber":"0x%x","transactionHash":"%s","transactionIndex":"0x%x","blockHash":"%s","blockTimestamp":"0x%x","logIndex":"0x%x","removed":false}`,
		g.contract, strings.Join(g.topics, `","`), g.data, g.block, l.hash("transaction", g.block<<16|g.transaction), g.transaction, blockHash, l.time(g.block).Unix(), g.index)
}

// bloom adds the log to the bloom filter of its block: three bits for the contract,
// and three for each topic.
func (g evmLog) bloom(filter *[256]byte) {
	for _, text := range append([]string{g.contract}, g.topics...) {
		raw, _ := hex.DecodeString(text[2:]) // valid hex by construction
		h := sha3.NewLegacyKeccak256()
		h.Write(raw)
		sum := h.Sum(nil)
		for i := 0; i < 6; i += 2 {
			bit := binary.BigEndian.Uint16(sum[i:]) % 2048
			filter[255-bit/8] |= 1 << (bit % 8)
		}
	}
}

// capitals returns an address in upper case, as sources other than JSON-RPC write it.
func capitals(address string) string { return "0x" + strings.ToUpper(address[2:]) }
