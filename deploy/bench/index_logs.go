package main

import (
	"fmt"
	"strings"

	"github.com/tipcache/tipcache/upstream/indexer"
	"github.com/tipcache/tipcache/upstream/ledger"
)

// logTemplate is a log as a client writes it, cut where it varies: the odd
// pieces say with what.
type logTemplate []string

// newTemplate makes the template of what a contract emits. Its parts may vary in
// what stands between percent signs.
func newTemplate(contract ledger.Address, topics []string, data string) logTemplate {
	return strings.Split(fmt.Sprintf(`{"address":"%s","topics":["0x%s"],"data":"0x%s","blockNumber":"%%block%%",`+
		`"transactionHash":"0x%%transaction%%","transactionIndex":"0x1","blockHash":"0x%%hash%%","blockTimestamp":"%%time%%",`+
		`"logIndex":"%%index%%","removed":false}`, contract, strings.Join(topics, `","0x`), data), "%")
}

var story = indexer.Networks()["story"]

var (
	registeredLog = newTemplate(story.Registry,
		[]string{"02ad3a2e0356b65fdfe4a73c825b78071ae469db35162978518b8c258abb3767", number(story.ChainID), padded("%collection%"), "%other%"},
		padded("%ip%")+number(4*32)+number(7*32)+number(chainGenesis)+
			text("1514: Collection of pieces #20571")+text("https://ipfs.io/ipfs/bafkreigh2akiscaildcqabsyg3dfr6chu3fgpregiymsck7e7aqa4s52zy"))
	mintedLog = newTemplate(story.Licensing,
		[]string{"0d96f072d487d7f8b4891a4e4cf14e8cdad444a34248230085c20808d57caa1a", padded("%account%"), padded("%ip%"), number(2)},
		padded("%account%")+number(3)+padded("%account%")+"%other%")
	raisedLog = newTemplate(story.Disputes,
		[]string{"4e5e36f19970922c3ec3bdf165b280da2032e133d27ba5ef4a78e10c8406f1e1"},
		"%dispute%"+padded("%ip%")+padded("%account%")+padded("%account%")+number(chainGenesis)+padded("%account%")+"%other%"+"%other%"+number(9*32)+number(0))
	judgedLog = newTemplate(story.Disputes,
		[]string{"fa3dcf1b0e225a1550712d56af15c1babdd6997813dfe7559f127361edeb31e3"},
		"%dispute%"+number(1)+number(3*32)+number(0))
)

// number and padded are words of the ABI, of 32 bytes; text is a length and as
// many words as the text needs.
func number(n int64) string        { return fmt.Sprintf("%064x", n) }
func padded(address string) string { return strings.Repeat("0", 24) + address }

func text(s string) string {
	words := (len(s) + 31) / 32
	return number(int64(len(s))) + fmt.Sprintf("%x", s) + strings.Repeat("0", 64*words-2*len(s))
}

func templateOf(log int64) logTemplate {
	switch at := log % logCycle; {
	case at < registrations:
		return registeredLog
	case at < logCycle-2:
		return mintedLog
	case at < logCycle-1:
		return raisedLog
	default:
		return judgedLog
	}
}

// appendLog appends the log with a number, counted over all blocks, that is the
// indexth of its block.
func appendLog(b []byte, log, block, index int64) []byte {
	for i, piece := range templateOf(log) {
		if i%2 == 0 {
			b = append(b, piece...)
		} else {
			b = appendPiece(b, piece, log, block, index)
		}
	}
	return b
}

func appendPiece(b []byte, piece string, log, block, index int64) []byte {
	switch piece {
	case "ip":
		return appendID(b, ipSeed, registration(log), 20)
	case "collection":
		return appendID(b, collectionSeed, collectionOf(log), 20)
	case "account":
		return appendID(b, otherSeed, log%1000, 20)
	case "dispute":
		return appendID(b, disputeSeed, log/logCycle, 32)
	case "hash":
		return appendID(b, blockSeed, block, 32)
	case "block":
		return appendQuantity(b, block)
	case "time":
		return appendQuantity(b, chainTime(block))
	case "index":
		return appendQuantity(b, index)
	default:
		return appendID(b, otherSeed, log, 32)
	}
}
