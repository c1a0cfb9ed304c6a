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

// A history is a chain whose blocks have events that count and events that do not.
type history struct {
	chainID  int64
	network  indexer.Network
	deployed map[string]int64 // contract to the block it appears in
	stamped  bool             // logs contain their block's time

	mu         sync.Mutex
	salt       string
	falseBloom int64             // a block whose bloom promises a log that it does not have; 0 means none
	invented   fakeLog           // a log that clients with the fault invents add to falseBloom
	blocks     [][]fakeLog       // by number
	owners     map[string]string // collections by IP, as returned by IPAccount.token()
	targets    map[string]string // IPs by dispute, as returned by DisputeModule.disputes()
	random     *rand.Rand
	ips        []string
	ids        []string
	last       int
}

type fakeLog struct {
	contract string
	topics   []string
	data     string

	// Used by the recount. Logs without a kind do not count.
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

// newHistory returns a chain of 10 blocks without events and a number of random blocks. Its first contract appears in block 5.
func newHistory(seed uint64, blocks int) *history {
	h := &history{
		chainID: 1514, network: story, stamped: seed%2 == 0, salt: fmt.Sprint(seed),
		deployed: map[string]int64{story.Registry.String(): 5, story.Licensing.String(): 7, story.Disputes.String(): 9},
		blocks:   make([][]fakeLog, 10),
		owners:   map[string]string{}, targets: map[string]string{},
		random: rand.New(rand.NewPCG(seed, 1)),
	}
	// Some IPs and disputes are older than the first event, and some have no owner.
	for range 5 {
		ip := h.newIP()
		h.owners[ip] = h.collection()
		id := h.newDispute()
		h.targets[id] = ip
		h.newIP()
		h.newDispute()
	}
	h.grow(blocks)
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
	return pick(h, []string{groupNFT, foreignZora, address(0xC0, 1), address(0xC0, 2), address(0xC0, 3), address(0xC0, 4)})
}

func pick(h *history, from []string) string { return from[h.random.IntN(len(from))] }

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

// addBlock appends a block with events.
func (h *history) addBlock(events ...func() fakeLog) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var logs []fakeLog
	for _, event := range events {
		logs = append(logs, event())
	}
	h.blocks = append(h.blocks, logs)
}

func (h *history) event() fakeLog {
	ip, id := pick(h, h.ips), pick(h, h.ids)
	switch h.random.IntN(10) {
	case 0, 1, 2:
		return h.register()
	case 3, 4:
		return h.mint(ip)
	case 5:
		return h.raise(ip)
	case 6:
		return judgeLog(id)
	case 7:
		return disputeLog("cancelled", cancelled, id, word("40")+word("0"))
	case 8:
		return resolveLog(id)
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

// tag returns an event with a dispute that was never raised, because the IP inherits a tag.
func (h *history) tag(ip string) fakeLog {
	infringer := pick(h, h.ids)
	id := h.newDispute()
	h.targets[id] = ip
	l := disputeLog("tagged", tagged, id, word(address(1, 5)[2:])+word(ip[2:])+infringer+word("aa")+word("1"))
	l.ip = ip
	return l
}

func judgeLog(id string) fakeLog {
	return disputeLog("judged", judged, id, word("1")+word("60")+word("0"))
}

func resolveLog(id string) fakeLog {
	return disputeLog("resolved", resolved, id, word("40")+word("0"))
}

func disputeLog(kind, topic, id, rest string) fakeLog {
	return fakeLog{contract: story.Disputes.String(), kind: kind, id: id, topics: []string{topic}, data: "0x" + id + rest}
}

func (h *history) head() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return int64(len(h.blocks) - 1)
}

// hash returns the hash of a block that an endpoint with faults returns.
func (h *history) hash(f faults, n int64) string {
	salt := h.salt
	if f.forkFrom > 0 && n >= f.forkFrom {
		salt += "fork"
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s/%d", salt, n))
	return "0x" + hex.EncodeToString(sum[:])
}

// number returns the number of the block with a hash, or -1 if no block up to the head has it.
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

// logsAt returns the logs of a block. With forkLogs, a fork has only every second one.
func (h *history) logsAt(f faults, n int64) (logs []fakeLog) {
	forked := f.forkLogs && f.forkFrom > 0 && n >= f.forkFrom
	for i, l := range h.blocks[n] {
		if !forked || i%2 == 0 {
			logs = append(logs, l)
		}
	}
	if n == h.falseBloom && n > 0 {
		logs = append(logs, similarLog())
		if f.invents {
			logs = append(logs, h.invented)
		}
	}
	return logs
}

func (h *history) header(f faults, n int64) map[string]any {
	h.mu.Lock()
	defer h.mu.Unlock()
	header := map[string]any{
		"number": hexInt(n), "hash": h.hash(f, n), "parentHash": h.hash(f, n-1), "timestamp": hexInt(seconds(n)),
		"transactions": []string{},
	}
	if n < int64(len(h.blocks)) {
		header["logsBloom"] = bloomOf(h.logsAt(f, n))
	}
	if f.zeroBloom {
		header["logsBloom"] = bloomOf(nil)
	}
	if f.noBloom {
		delete(header, "logsBloom")
	}
	if f.wrongHeader {
		header["hash"] = h.hash(faults{forkFrom: 1}, n)
	}
	return header
}

// bloomOf returns the bloom filter of a block's logs.
func bloomOf(logs []fakeLog) string {
	var bits [256]byte
	for _, l := range logs {
		for _, value := range append([]string{l.contract}, l.topics...) {
			for _, bit := range bloomBits(value) {
				bits[255-bit/8] |= 1 << (bit % 8)
			}
		}
	}
	return "0x" + hex.EncodeToString(bits[:])
}

func bloomBits(value string) (bits []int) {
	raw, _ := hex.DecodeString(value[2:])
	h := sha3.NewLegacyKeccak256()
	h.Write(raw)
	sum := h.Sum(nil)
	for i := 0; i < 6; i += 2 {
		bits = append(bits, (int(sum[i])<<8|int(sum[i+1]))&2047)
	}
	return bits
}

// similarLog returns a log of another contract whose bloom also promises a registration.
var similarLog = sync.OnceValue(func() fakeLog {
	l := fakeLog{contract: foreignZora}
	for _, wanted := range append(bloomBits(story.Registry.String()), bloomBits(registered)...) {
		for i := 0; ; i++ {
			if topic := "0x" + word(fmt.Sprintf("%x", i)); slices.Contains(bloomBits(topic), wanted) {
				l.topics = append(l.topics, topic)
				break
			}
		}
	}
	return l
})

// logs returns the logs of a range that match the contracts and the first topics. None match all.
func (h *history) logs(f faults, from, to int64, contracts, topics []string) []map[string]any {
	h.mu.Lock()
	defer h.mu.Unlock()
	found := []map[string]any{}
	for n := from; n <= to; n++ {
		for i, l := range h.logsAt(f, n) {
			if len(contracts) > 0 && !slices.Contains(contracts, l.contract) || len(topics) > 0 && !slices.Contains(topics, l.topics[0]) {
				continue
			}
			log := map[string]any{
				"address": l.contract, "topics": l.topics, "data": l.data, "blockNumber": hexInt(n),
				"blockHash": h.hash(f, n), "logIndex": hexInt(int64(i)), "removed": false,
			}
			if h.stamped {
				log["blockTimestamp"] = hexInt(seconds(n))
			}
			if f.logTime != 0 {
				log["blockTimestamp"] = hexInt(f.logTime)
			}
			found = append(found, log)
		}
	}
	return found
}

// counted is the expected content of a store.
type counted struct {
	collections []collections.Collection
	owners      ledger.Owners

	// All ids of the history, including those that no counted event names.
	ips      []ledger.Address
	disputes []ledger.Hash
}

// count recounts all events since a block.
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
