package main

import (
	"encoding/json"
	"testing"

	"github.com/tipcache/tipcache/upstream/indexer"
)

func TestTheChainIsOneThatIsIndexed(t *testing.T) {
	c := &chain{head: 1000, logs: 12_345}
	if got := c.until(c.head); got != c.logs {
		t.Errorf("all blocks have %d logs", got)
	}
	whole := c.appendLogs(nil, 1, c.head)
	if !json.Valid(whole) || !json.Valid(appendHeader(nil, 7)) {
		t.Fatal("not JSON")
	}
	network := indexer.Networks()["story"]
	events, err := network.DecodeLogs(whole)
	if err != nil || int64(len(events)) != c.logs {
		t.Fatalf("%d events, %v", len(events), err)
	}
	owners := map[any]bool{}
	var kinds [4]int
	for _, e := range events {
		kinds[e.Kind]++
		switch e.Kind {
		case indexer.Registered:
			owners[e.IP] = true
		case indexer.Raised:
			owners[e.Dispute] = owners[e.IP]
		case indexer.Minted:
			if !owners[e.IP] {
				t.Fatal("minted before it was registered")
			}
		case indexer.Judged:
			if !owners[e.Dispute] {
				t.Fatal("judged before it was raised")
			}
		}
	}
	if kinds[indexer.Registered] < 8600 || kinds[indexer.Minted] < 3000 || kinds[indexer.Raised] < 300 || kinds[indexer.Judged] < 300 {
		t.Errorf("kinds: %v", kinds)
	}
}

func TestPartsOfTheChainMakeTheWhole(t *testing.T) {
	c := &chain{head: 100, logs: 77}
	whole := c.appendLogs(nil, 1, 100)
	first, second := c.appendLogs(nil, 1, 50), c.appendLogs(nil, 51, 100)
	if joined := string(first[:len(first)-1]) + "," + string(second[1:]); joined != string(whole) {
		t.Error("they do not")
	}
}

func BenchmarkChain(b *testing.B) {
	c := &chain{head: 1000, logs: 10_000}
	var body []byte
	for b.Loop() {
		body = c.appendLogs(body[:0], 1, 1000)
	}
	b.SetBytes(int64(len(body)))
}
