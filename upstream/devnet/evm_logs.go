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
	"strconv"
	"strings"

	"golang.org/x/crypto/sha3"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// A happening is one transaction that concerns an asset.
type happening struct {
	asset
	kind    string // as in logs.jsonl
	block   int64
	dispute int64 // id of the dispute it belongs to; 0 means none
}

// Number of blocks from the registration of an asset to its last license, and to the end of its last dispute.
const (
	licensedFor = 255
	disputedFor = raisedAfter + 2*256
)

// follow returns the transactions about an asset: its registration, its licenses and its dispute.
func (a asset) follow() []happening {
	at := assetBlock(a.number)
	all := []happening{{asset: a, kind: "registered", block: at}}
	if a.digest[16]%4 == 0 {
		all = append(all, happening{asset: a, kind: "licensed", block: at + int64(a.digest[17])})
	}
	if isDisputed(a.number) {
		all = append(all, a.dispute()...)
	}
	return all
}

// amount returns how much a happening adds to its counter: one, or up to seven licenses.
func (h happening) amount() int64 {
	if h.kind != "licensed" {
		return 1
	}
	return 1 + int64(h.digest[20]%7)
}

const (
	assetsPerDispute = 100 // one in this many assets is disputed
	firstDisputed    = 20  // number of the first disputed asset
	raisedAfter      = 40  // blocks after the registration; constant, so that dispute ids rise
)

func isDisputed(number int64) bool { return number%assetsPerDispute == firstDisputed }

// fates are the outcomes of disputes, in turn.
var fates = [...]string{"judged resolved", "", "cancelled", "judged", "judged resolved", "cancelled", "judged", "judged"}

// dispute returns the transactions of the dispute about an asset.
func (a asset) dispute() []happening {
	turn := a.number / assetsPerDispute
	h := happening{asset: a, kind: "raised", block: assetBlock(a.number) + raisedAfter, dispute: turn + 1}
	all := []happening{h}
	for i, fate := range strings.Fields(fates[turn%int64(len(fates))]) {
		h.kind, h.block = fate, h.block+1+int64(a.digest[24+i])
		all = append(all, h)
	}
	return all
}

// groupsIndex is the index of the collection of groups.
const groupsIndex = 3

// collectionAddress returns the token contract of the i-th collection.
func collectionAddress(seed uint64, i int) string {
	if i == groupsIndex {
		return strings.ToLower(GroupNFT)
	}
	d := state.Digest(seed, "collection", int64(i))
	return hexText(d[12:])
}

// The last 8 bytes of an account or hash are the number of its asset or block.

func numbered(text string, n int64) string { return fmt.Sprintf("%s%016x", text[:len(text)-16], n) }

func numberOf(text string) int64 {
	n, err := strconv.ParseInt(text[max(0, len(text)-16):], 16, 64)
	if err != nil {
		return -1
	}
	return n
}

// ip returns the account of an asset.
func (a asset) ip() string { return numbered(hexText(a.digest[:20]), a.number) }

// find returns the asset with an account, if it is registered at the block.
func (l ledger) find(ip string, block int64) (asset, bool) {
	n := numberOf(ip)
	if n < 0 || n > block || assetBlock(n) > block || l.count == 0 {
		return asset{}, false
	}
	a := l.asset(n)
	return a, strings.EqualFold(a.ip(), ip)
}

// token returns the id of the asset within its collection. Some are large.
func (a asset) token() string {
	if a.number%50 == 7 {
		return hex.EncodeToString(a.digest[:])
	}
	return numberWord(uint64(a.number) + 1)
}

// disputeAbout returns the transaction that raised the dispute with an id, if it is in a block up to the given one.
func (l ledger) disputeAbout(id, block int64) (happening, bool) {
	if id < 1 || id > block || l.count == 0 {
		return happening{}, false
	}
	raised := l.asset((id-1)*assetsPerDispute + firstDisputed).dispute()[0]
	return raised, raised.block <= block
}

// hash returns a digest for a part of the chain.
func (l ledger) hash(what string, i int64) string {
	d := state.Digest(l.seed, "evm "+what, i)
	return hexText(d[:])
}

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
