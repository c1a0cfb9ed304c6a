package indexer_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/expect"
)

var aeneid = indexer.Networks()["aeneid"]

// realLog is a log of Aeneid: block 23425318, transaction
// 0x38edba4e4fdfe2da4e7f1203785eaa826a69bf6681e827f666ed665e67b035c3.
var realLog = `{"address":"0x77319b4031e6ef1250907aa00018b8b1c67a244b","topics":[
	"0x02ad3a2e0356b65fdfe4a73c825b78071ae469db35162978518b8c258abb3767","0x` + word("523") + `",
	"0x` + word("538048a26dbcc7a1dd446762098b0bfafa3a1472") + `","0x` + word("23") + `"],
	"data":"0x` + word("1653b905597e0f778c0e9c2d8a9d5c003ee56614") + word("80") + word("e0") + word("6aa24b41") +
	word("1b") + "313331353a20417572656d495020436f6c6c656374696f6e20233335" + strings.Repeat("0", 10) + word("0") + `",
	"blockNumber":"0x1657126","blockHash":"0x` + word("b10c") + `","blockTimestamp":"0x6aa24b41","logIndex":"0x4","removed":false}`

func TestRegistrationOnAeneidIsDecoded(t *testing.T) {
	got := expect.Value(aeneid.DecodeLogs([]byte("[" + realLog + "]")))(t)
	want := []indexer.Event{{
		Kind: indexer.Registered, Block: 23425318, Index: 4, Time: time.Date(2026, 9, 10, 6, 16, 33, 0, time.UTC), BlockHash: ledger.Hash{30: 0xb1, 31: 0x0c},
		IP:         parseAddress("0x1653b905597e0f778c0e9c2d8a9d5c003ee56614"),
		Collection: parseAddress("0x538048a26dbcc7a1dd446762098b0bfafa3a1472"),
	}}
	expect.NoDiff(t, got, want, "events")
}

func TestEachKindOfEventIsDecoded(t *testing.T) {
	ip, collection := address(0xA0, 9), address(0xC0, 8)
	id := word("ff00000000000000000000000000000000000000000000000000000000000007")
	var dispute ledger.Hash
	dispute[0], dispute[31] = 0xff, 7
	older, newer := id+word(ip[2:])+strings.Repeat(word("1"), 7), id+word(ip[2:])+strings.Repeat(word("1"), 8)
	disputes := story.Disputes.String()
	tests := []struct {
		name string
		log  fakeLog
		want indexer.Event
	}{
		{
			"group, registered under the group contract",
			fakeLog{contract: story.Registry.String(), topics: []string{registered, "0x" + word("5ea"), "0x" + word(groupNFT[2:]), "0x" + word("1")}, data: "0x" + word(ip[2:]) + strings.Repeat(word("0"), 5)},
			indexer.Event{Kind: indexer.Registered, IP: parseAddress(ip), Collection: parseAddress(groupNFT)},
		},
		{
			"IP of another chain, registered under its token's contract",
			fakeLog{contract: story.Registry.String(), topics: []string{registered, "0x" + word("1"), "0x" + word(collection[2:]), "0x" + word("1")}, data: "0x" + word(ip[2:]) + strings.Repeat(word("0"), 5)},
			indexer.Event{Kind: indexer.Registered, IP: parseAddress(ip), Collection: parseAddress(collection)},
		},
		{
			"license tokens",
			fakeLog{contract: story.Licensing.String(), topics: []string{minted, "0x" + word("1"), "0x" + word(ip[2:]), "0x" + word("2")}, data: "0x" + word("3") + word("3e8") + word("4") + word("5")},
			indexer.Event{Kind: indexer.Minted, IP: parseAddress(ip), Amount: 1000},
		},
		{
			"amount above the maximum",
			fakeLog{contract: story.Licensing.String(), topics: []string{minted, "0x" + word("1"), "0x" + word(ip[2:]), "0x" + word("2")}, data: "0x" + word("3") + strings.Repeat("f", 64) + word("4") + word("5")},
			indexer.Event{Kind: indexer.Minted, IP: parseAddress(ip), Amount: 1<<53 - 1},
		},
		{
			"dispute raised, older event",
			fakeLog{contract: disputes, topics: []string{raisedOlder}, data: "0x" + older},
			indexer.Event{Kind: indexer.Raised, IP: parseAddress(ip), Dispute: dispute},
		},
		{
			"dispute raised, newer event",
			fakeLog{contract: disputes, topics: []string{raised}, data: "0x" + newer},
			indexer.Event{Kind: indexer.Raised, IP: parseAddress(ip), Dispute: dispute},
		},
		{
			"dispute judged and rejected",
			fakeLog{contract: disputes, topics: []string{judged}, data: "0x" + id + word("0") + word("60") + word("0")},
			indexer.Event{Kind: indexer.Judged, Dispute: dispute},
		},
		{"dispute withdrawn", disputeLog("", cancelled, id, word("40")+word("0")), indexer.Event{Kind: indexer.Cancelled, Dispute: dispute}},
		{"dispute resolved", resolveLog(id), indexer.Event{Kind: indexer.Resolved, Dispute: dispute}},
		{
			"inherited tag, a dispute of the inheriting IP",
			fakeLog{contract: disputes, topics: []string{tagged}, data: "0x" + id + word(address(1, 1)[2:]) + word(ip[2:]) + word("1") + word("aa") + word("bb")},
			indexer.Event{Kind: indexer.Tagged, IP: parseAddress(ip), Dispute: dispute},
		},
	}
	for _, test := range tests {
		test.want.Block, test.want.Index, test.want.BlockHash = 16, 7, ledger.Hash{31: 1}
		logs := expect.Value(json.Marshal([]map[string]any{{
			"address": test.log.contract, "topics": test.log.topics, "data": test.log.data, "blockNumber": "0x10", "blockHash": "0x" + word("1"), "logIndex": "0x7", "removed": false,
		}}))(t)
		expect.NoDiff(t, expect.Value(story.DecodeLogs(logs))(t), []indexer.Event{test.want}, "events of %s", test.name)
	}
}

func TestUnknownLogIsIgnored(t *testing.T) {
	for name, log := range map[string]string{
		"of another event":                        strings.Replace(realLog, "0x02ad", "0x02ae", 1),
		"of another contract":                     strings.Replace(realLog, "0x77319b", "0x77319c", 1),
		"of an event of another of the contracts": strings.Replace(realLog, "0x77319b4031e6ef1250907aa00018b8b1c67a244b", aeneid.Disputes.String(), 1),
		"without topics":                          fmt.Sprintf(`{"address":%q,"topics":[],"data":"0x"}`, aeneid.Registry),
	} {
		if got, err := aeneid.DecodeLogs([]byte("[" + log + "]")); err != nil || len(got) > 0 {
			t.Errorf("log %s: DecodeLogs = %v, %v, want no event", name, got, err)
		}
	}
}

func TestMalformedLogIsAnError(t *testing.T) {
	for name, log := range map[string]string{
		"removed":                strings.Replace(realLog, `"removed":false`, `"removed":true`, 1),
		"without a block":        strings.Replace(realLog, `"blockNumber"`, `"b"`, 1),
		"with an invalid block":  strings.Replace(realLog, `"0x1657126"`, `"latest"`, 1),
		"without a block hash":   strings.Replace(realLog, `"blockHash"`, `"b"`, 1),
		"with an invalid time":   strings.Replace(realLog, `"0x6aa24b41"`, `"now"`, 1),
		"with too few topics":    strings.Replace(realLog, `,"0x`+word("23")+`"`, "", 1),
		"with too many topics":   strings.Replace(realLog, `"0x`+word("23")+`"`, `"0x1","0x2","0x3"`, 1),
		"with data cut short":    `{"address":"` + aeneid.Disputes.String() + `","topics":["` + judged + `"],"data":"0x` + word("1") + `","blockNumber":"0x1"}`,
		"with data not in hex":   strings.Replace(realLog, "1653b905", "1653b9zz", 1),
		"with a wide address":    strings.Replace(realLog, word("1653b905597e0f778c0e9c2d8a9d5c003ee56614"), "1"+word("1653b905597e0f778c0e9c2d8a9d5c003ee56614")[1:], 1),
		"with no address at all": `{"topics":[]}`,
		"that is a number":       `7`,
	} {
		if got, err := aeneid.DecodeLogs([]byte("[" + log + "]")); err == nil {
			t.Errorf("log %s: DecodeLogs = %v, nil, want an error", name, got)
		}
	}
}

func FuzzDecodeLogs(f *testing.F) {
	f.Add([]byte("[" + realLog + "]"))
	h := newHistory(1, 30)
	logs, _ := json.Marshal(h.logs(faults{}, 0, h.head(), []string{story.Registry.String(), story.Licensing.String(), story.Disputes.String()},
		[]string{registered, minted, raised, raisedOlder, judged, cancelled, resolved, tagged}))
	f.Add(logs)
	f.Fuzz(func(t *testing.T, logs []byte) {
		if !json.Valid(logs) {
			return
		}
		events, err := story.DecodeLogs(logs)
		for _, e := range events {
			if e.Kind < indexer.Registered || e.Kind > indexer.Tagged || e.Block < 0 || e.Amount < 0 || e.Amount > 1<<53-1 {
				t.Errorf("event %+v, error %v, want a known kind and values within their bounds", e, err)
			}
		}
	})
}
