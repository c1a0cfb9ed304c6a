package indexer_test

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/sha3"

	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
)

// A history is a chain's blocks with the events that count, and some that do not.
type history struct {
	chainID  int64
	network  indexer.Network
	deployed map[string]int64 // contract to the block it appears in
	stamped  bool             // logs say their block's time
	vain     map[int64]bool   // blocks whose bloom promises a log that they do not have

	mu      sync.Mutex
	salt    string
	blocks  [][]fakeLog       // by number
	owners  map[string]string // IP to collection: what IPAccount.token() tells
	targets map[string]string // dispute, a word, to IP: what DisputeModule.disputes() tells
	random  *rand.Rand
	ips     []string
	ids     []string
	last    int
}

type fakeLog struct {
	contract string
	topics   []string
	data     string

	// What the recount counts, nothing of it if kind is "".
	kind   string
	ip, id string
	amount int64
}

const (
	genesis     = 1_780_000_000 // block 0, in seconds since 1970
	groupNFT    = "0x4709798fea84c84ae2475ff0c25344115ee1529f"
	foreignZora = "0x1111111111111111111111111111111111111111"
)

var story = indexer.Networks()["story"]

// newHistory begins a chain on which the contracts appear in block 5.
func newHistory(seed uint64) *history {
	h := &history{
		chainID: 1514, network: story, stamped: seed%2 == 0, salt: fmt.Sprint(seed),
		deployed: map[string]int64{story.Registry.String(): 5, story.Licensing.String(): 7, story.Disputes.String(): 9},
		blocks:   make([][]fakeLog, 10),
		owners:   map[string]string{}, targets: map[string]string{},
		random: rand.New(rand.NewPCG(seed, 1)),
	}
	// Some that were there before, which no event tells of, and some nobody owns.
	for range 5 {
		ip := h.newIP()
		h.owners[ip] = h.collection()
		id := h.newDispute()
		h.targets[id] = ip
		h.newIP()
		h.newDispute()
	}
	return h
}

func (h *history) newIP() string {
	h.last++
	h.ips = append(h.ips, address(0xA0, h.last))
	return h.ips[len(h.ips)-1]
}

func (h *history) newDispute() string {
	h.last++
	h.ids = append(h.ids, word(fmt.Sprintf("%x", h.last)))
	return h.ids[len(h.ids)-1]
}

func (h *history) collection() string {
	some := []string{groupNFT, foreignZora, address(0xC0, 1), address(0xC0, 2), address(0xC0, 3), address(0xC0, 4)}
	return some[h.random.IntN(len(some))]
}

// grow adds blocks of random events, many of them empty.
func (h *history) grow(blocks int) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for range blocks {
		var logs []fakeLog
		if h.random.IntN(3) > 0 {
			for range h.random.IntN(6) {
				logs = append(logs, h.event())
			}
		}
		h.blocks = append(h.blocks, logs)
	}
}

func (h *history) event() fakeLog {
	ip, id := h.ips[h.random.IntN(len(h.ips))], h.ids[h.random.IntN(len(h.ids))]
	switch h.random.IntN(10) {
	case 0, 1, 2:
		return h.register()
	case 3, 4:
		return h.mint(ip)
	case 5:
		return h.raise(ip)
	case 6:
		return disputeLog("judged", judged, id, word("1")+word("60")+word("0"))
	case 7:
		return disputeLog("cancelled", cancelled, id, word("40")+word("0"))
	case 8:
		return disputeLog("resolved", resolved, id, word("40")+word("0"))
	default:
		return h.tag(ip)
	}
}

const (
	registered  = "0x02ad3a2e0356b65fdfe4a73c825b78071ae469db35162978518b8c258abb3767"
	minted      = "0x0d96f072d487d7f8b4891a4e4cf14e8cdad444a34248230085c20808d57caa1a"
	raised      = "0x4e5e36f19970922c3ec3bdf165b280da2032e133d27ba5ef4a78e10c8406f1e1"
	raisedOlder = "0x0d33aef6594f31a48636b65156c5ef95cc55d30bc086f59468bb1461153e8743"
	judged      = "0xfa3dcf1b0e225a1550712d56af15c1babdd6997813dfe7559f127361edeb31e3"
	cancelled   = "0xfebcb1416e54dcfc6be64b1ad5531b7ffe4733b94972361567dd8da40e404c03"
	resolved    = "0xe552ae9fc3589b0b34444687568547a934871d53843ce14f33940335d4d70e71"
	tagged      = "0xf0b760f19317a7e4ea4ac34ecddaff62bcecf43c393f3994450d0499e173b327"
)

func (h *history) register() fakeLog {
	ip, collection, chain := h.newIP(), h.collection(), "5ea"
	if collection == foreignZora {
		chain = "76adf1"
	}
	h.owners[ip] = collection
	return fakeLog{
		contract: story.Registry.String(), kind: "registered", ip: ip,
		topics: []string{registered, "0x" + word(chain), "0x" + word(collection[2:]), "0x" + word("23")},
		data:   "0x" + word(ip[2:]) + word("80") + word("c0") + word("6aa24b41") + word("1") + word("41") + word("0"),
	}
}

func (h *history) mint(ip string) fakeLog {
	amount := 1 + h.random.Int64N(40)
	return fakeLog{
		contract: story.Licensing.String(), kind: "minted", ip: ip, amount: amount,
		topics: []string{minted, "0x" + word(address(1, 1)[2:]), "0x" + word(ip[2:]), "0x" + word("2")},
		data:   "0x" + word(address(1, 2)[2:]) + word(fmt.Sprintf("%x", amount)) + word(address(1, 3)[2:]) + word("9"),
	}
}

func (h *history) raise(ip string) fakeLog {
	id := h.newDispute()
	h.targets[id] = ip
	topic, caller := raised, word(address(1, 4)[2:])
	if h.random.IntN(2) == 0 {
		topic, caller = raisedOlder, ""
	}
	l := disputeLog("raised", topic, id, word(ip[2:])+caller+strings.Repeat(word("1"), 7))
	l.ip = ip
	return l
}

// tag makes a dispute that was never raised, of an IP that inherits a tag.
func (h *history) tag(ip string) fakeLog {
	infringer := h.ids[h.random.IntN(len(h.ids))]
	id := h.newDispute()
	h.targets[id] = ip
	l := disputeLog("tagged", tagged, id, word(address(1, 5)[2:])+word(ip[2:])+infringer+word("aa")+word("1"))
	l.ip = ip
	return l
}

func disputeLog(kind, topic, id, rest string) fakeLog {
	return fakeLog{contract: story.Disputes.String(), kind: kind, id: id, topics: []string{topic}, data: "0x" + id + rest}
}

func (h *history) head() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return int64(len(h.blocks) - 1)
}

// hash is that of a block, as an endpoint tells it.
func (h *history) hash(f faults, n int64) string {
	salt := h.salt
	if f.forkFrom > 0 && n >= f.forkFrom {
		salt += "fork"
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", salt, n))
	return "0x" + hex.EncodeToString(sum[:])
}

// number is that of the block with a hash, up to the head; -1 for none.
func (h *history) number(f faults, hash string, head int64) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	for n := range head + 1 {
		if h.hash(f, n) == hash {
			return n
		}
	}
	return -1
}

func seconds(block int64) int64 { return genesis + block*5/2 }

// logsAt are those of a block: every second one of a fork is missing.
func (h *history) logsAt(f faults, n int64) []fakeLog {
	logs := h.blocks[n]
	if f.forkFrom == 0 || n < f.forkFrom || !f.forkLogs {
		return logs
	}
	var kept []fakeLog
	for i, l := range logs {
		if i%2 == 0 {
			kept = append(kept, l)
		}
	}
	return kept
}

func (h *history) header(f faults, n int64) map[string]any {
	h.mu.Lock()
	defer h.mu.Unlock()
	header := map[string]any{
		"number": hexInt(n), "hash": h.hash(f, n), "parentHash": h.hash(f, n-1), "timestamp": hexInt(seconds(n)),
		"transactions": []string{},
	}
	if n < int64(len(h.blocks)) {
		logs := h.logsAt(f, n)
		if h.vain[n] {
			logs = append(logs, fakeLog{contract: story.Registry.String(), topics: []string{registered}})
		}
		header["logsBloom"] = bloomOf(logs)
	}
	if f.wrongHeader {
		header["hash"] = h.hash(faults{forkFrom: 1}, n)
	}
	return header
}

// bloomOf is the bloom filter of a block's logs.
func bloomOf(logs []fakeLog) string {
	var bits [256]byte
	for _, l := range logs {
		for _, something := range append([]string{l.contract}, l.topics...) {
			raw, _ := hex.DecodeString(something[2:])
			h := sha3.NewLegacyKeccak256()
			h.Write(raw)
			sum := h.Sum(nil)
			for i := 0; i < 6; i += 2 {
				bit := (int(sum[i])<<8 | int(sum[i+1])) & 2047
				bits[255-bit/8] |= 1 << (bit % 8)
			}
		}
	}
	return "0x" + hex.EncodeToString(bits[:])
}

func (h *history) logs(f faults, from, to int64, contracts, topics []string) []map[string]any {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := []map[string]any{}
	for n := from; n <= to; n++ {
		for i, l := range h.logsAt(f, n) {
			if !slices.Contains(contracts, l.contract) || !slices.Contains(topics, l.topics[0]) {
				continue
			}
			log := map[string]any{
				"address": l.contract, "topics": l.topics, "data": l.data, "blockNumber": hexInt(n),
				"blockHash": h.hash(f, n), "logIndex": hexInt(int64(i)), "removed": false,
			}
			if h.stamped {
				log["blockTimestamp"] = hexInt(seconds(n))
			}
			found = append(found, log)
		}
	}
	return found
}

// counted is what a store should hold.
type counted struct {
	collections []collections.Collection
	owners      ledger.Owners

	// All that an indexer could have heard of, whether it had to learn it or not.
	ips      []ledger.Address
	disputes []ledger.Hash
}

// count is the recount: of all the blocks from one on, knowing everything.
func (h *history) count(from int64) counted {
	h.mu.Lock()
	defer h.mu.Unlock()
	c := counted{owners: ledger.Owners{IPs: map[ledger.Address]ledger.Address{}, Disputes: map[ledger.Hash]ledger.Address{}}}
	for _, ip := range h.ips {
		c.ips = append(c.ips, parseAddress(ip))
	}
	for _, id := range h.ids {
		c.disputes = append(c.disputes, parseID(id))
	}
	all := map[string]*collections.Collection{}
	for n := from; n < int64(len(h.blocks)); n++ {
		for _, l := range h.blocks[n] {
			ip := cmp.Or(l.ip, h.targets[l.id])
			key, known := h.owners[ip]
			if !known {
				continue
			}
			c.owners.IPs[parseAddress(ip)] = parseAddress(key)
			if l.id != "" {
				c.owners.Disputes[parseID(l.id)] = parseAddress(key)
			}
			if l.kind != "tagged" {
				if all[key] == nil {
					all[key] = &collections.Collection{Address: key, CreatedAt: time.Unix(seconds(n), 0).UTC()}
				}
				l.countFor(all[key], time.Unix(seconds(n), 0).UTC())
			}
		}
	}
	c.collections = []collections.Collection{}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		c.collections = append(c.collections, *all[key])
	}
	return c
}

func (l fakeLog) countFor(c *collections.Collection, at time.Time) {
	c.UpdatedAt = at
	switch l.kind {
	case "registered":
		c.AssetCount++
	case "minted":
		c.LicensesCount += l.amount
	case "raised":
		c.RaisedDisputeCount++
	case "judged":
		c.JudgedDisputeCount++
	case "cancelled":
		c.CancelledDisputeCount++
	case "resolved":
		c.ResolvedDisputeCount++
	}
}

func parseAddress(s string) ledger.Address {
	a, err := indexer.ParseAddress(s)
	if err != nil {
		panic(err)
	}
	return a
}

func parseID(digits string) (id ledger.Hash) {
	if n, err := hex.Decode(id[:], []byte(digits)); err != nil || n != len(id) {
		panic(digits)
	}
	return id
}
