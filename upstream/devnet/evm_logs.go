package devnet

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"iter"
	"slices"

	"golang.org/x/crypto/sha3"
)

// The first topics of the events. The first one comes with every registration
// and says less about it.
var (
	topicIPAccountRegistered = mustWord("0x5be70b68c8361762980ec7d425d79fd33f6d49cac8a498e6ddf514f995b987f7")
	topicIPRegistered        = mustWord("0x02ad3a2e0356b65fdfe4a73c825b78071ae469db35162978518b8c258abb3767")
	topicLicenseTokensMinted = mustWord("0x0d96f072d487d7f8b4891a4e4cf14e8cdad444a34248230085c20808d57caa1a")
	topicDisputeRaised       = mustWord("0x0d33aef6594f31a48636b65156c5ef95cc55d30bc086f59468bb1461153e8743")
	topicDisputeRaisedBy     = mustWord("0x4e5e36f19970922c3ec3bdf165b280da2032e133d27ba5ef4a78e10c8406f1e1")
	topicDisputeJudgementSet = mustWord("0xfa3dcf1b0e225a1550712d56af15c1babdd6997813dfe7559f127361edeb31e3")
	topicDisputeCancelled    = mustWord("0xfebcb1416e54dcfc6be64b1ad5531b7ffe4733b94972361567dd8da40e404c03")
	topicDisputeResolved     = mustWord("0xe552ae9fc3589b0b34444687568547a934871d53843ce14f33940335d4d70e71")
	topicIPTagged            = mustWord("0xf0b760f19317a7e4ea4ac34ecddaff62bcecf43c393f3994450d0499e173b327")
)

// An evmLog is one event as a contract emitted it.
type evmLog struct {
	contract address
	topics   []word
	data     []byte

	block, transaction, index int64
}

// logs yields the logs from one block to another, both included, in order.
func (l ledger) logs(from, to int64) iter.Seq[evmLog] {
	all := slices.SortedStableFunc(l.happenings(from, to), func(a, b happening) int { return cmp.Compare(a.block, b.block) })
	return func(yield func(evmLog) bool) {
		var transaction, index int64 // of the next in the block
		for i, h := range all {
			if i > 0 && all[i-1].block != h.block {
				transaction, index = 0, 0
			}
			for _, log := range l.emitted(h) {
				log.block, log.transaction, log.index = h.block, transaction, index
				index++
				if !yield(log) {
					return
				}
			}
			transaction++
		}
	}
}

// emitted are the logs of one transaction.
func (l ledger) emitted(h happening) []evmLog {
	id, at, ip := numberWord(uint64(h.dispute)), l.timestamp(h.block), addressWord(l.ip(h.asset))
	dispute := func(topic word, arguments ...any) []evmLog {
		return []evmLog{{contract: disputeAddress, topics: []word{topic}, data: pack(arguments...)}}
	}
	switch h.kind {
	case registered:
		chain, contract, token := numberWord(l.chainOf(h.collection)), addressWord(collectionAddress(l.seed, h.collection)), h.token()
		return []evmLog{
			{contract: registryAddress, topics: []word{topicIPAccountRegistered, ip, l.someone("implementation", 0), chain}, data: pack(contract, token)},
			{contract: registryAddress, topics: []word{topicIPRegistered, chain, contract, token}, data: pack(ip, []byte(l.name(h.asset)), []byte(nil), at)},
		}
	case licensed:
		caller := l.someone("licensee", h.number)
		return []evmLog{{
			contract: licensingAddress,
			topics:   []word{topicLicenseTokensMinted, caller, ip, numberWord(1 + uint64(h.digest[22])%20)},
			data:     pack(l.someone("template", 0), numberWord(uint64(h.amount())), caller, numberWord(uint64(16*h.number))),
		}}
	case disputed:
		topic, raiser := topicDisputeRaisedBy, l.someone("raiser", h.number)
		about := []any{id, addressWord(l.subject(h)), l.someone("caller", h.number), raiser, at, l.someone("policy", 0), l.hash("evidence", h.number), disputeTag(), []byte("liveness")}
		if h.dispute%4 == 1 { // as the contract did before it was upgraded
			topic, about = topicDisputeRaised, slices.Delete(about, 2, 3)
		}
		return dispute(topic, about...)
	case judged:
		return dispute(topicDisputeJudgementSet, id, numberWord(1), []byte(nil))
	case cancelled:
		return dispute(topicDisputeCancelled, id, []byte(nil))
	case resolved, resolvedToo:
		return dispute(topicDisputeResolved, id, []byte("settled"))
	default: // tagged
		infringer := l.ip(l.asset(disputedBy(h.dispute)))
		return dispute(topicIPTagged, id, addressWord(infringer), ip, numberWord(uint64(h.dispute-1)), disputeTag(), at)
	}
}

// someone is an account or contract of which only the address matters.
func (l ledger) someone(role string, i int64) word {
	w := l.hash(role, i)
	clear(w[:12])
	return w
}

// timestamp is the time of a block as it stands in logs.
func (l ledger) timestamp(block int64) word { return numberWord(uint64(l.time(block).Unix())) }

// disputeTag is the reason of all disputes.
func disputeTag() (w word) {
	copy(w[:], "IMPROPER_REGISTRATION")
	return w
}

// appendTo appends a log as JSON-RPC has it.
func (g evmLog) appendTo(b []byte, l ledger, blockHash word) []byte {
	b = fmt.Appendf(b, `{"address":"0x%x","topics":[`, g.contract[:])
	for i := range g.topics {
		b = fmt.Appendf(b, `%s"0x%x"`, ","[:min(i, 1)], g.topics[i][:])
	}
	hash := l.transactionHash(g.block, g.transaction)
	return fmt.Appendf(b, `],"data":"0x%x","blockNumber":"0x%x","transactionHash":"0x%x","transactionIndex":"0x%x","blockHash":"0x%x","blockTimestamp":"0x%x","logIndex":"0x%x","removed":false}`,
		g.data, g.block, hash[:], g.transaction, blockHash[:], l.time(g.block).Unix(), g.index)
}

// bloom adds the log to the bloom filter of its block: three bits for the contract,
// and three for each topic.
func (g evmLog) bloom(filter *[256]byte) {
	add := func(something []byte) {
		h := sha3.NewLegacyKeccak256()
		h.Write(something)
		sum := h.Sum(nil)
		for i := 0; i < 6; i += 2 {
			bit := binary.BigEndian.Uint16(sum[i:]) % 2048
			filter[255-bit/8] |= 1 << (bit % 8)
		}
	}
	add(g.contract[:])
	for i := range g.topics {
		add(g.topics[i][:])
	}
}
