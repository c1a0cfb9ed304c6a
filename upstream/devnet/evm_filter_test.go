package devnet_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/upstream/devnet"
)

func TestFiltersPickFromTheLogs(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Collections: 30})
	from, to := d.EVMStart()-300, d.EVMStart()
	all := logs(t, d.EVMURL(), from, to, "")
	any := func(logged) bool { return true }
	by := func(contract string) func(logged) bool {
		return func(g logged) bool { return strings.EqualFold(g.Address, contract) }
	}
	of := func(topics ...string) func(logged) bool {
		return func(g logged) bool { return slices.Contains(topics, g.Topics[0]) }
	}
	for name, c := range map[string]struct {
		filter string
		want   func(logged) bool
	}{
		"nothing":                 {``, any},
		"nulls":                   {`,"address":null,"topics":null`, any},
		"addresses in lower case": {`,"address":["` + strings.ToLower(devnet.DisputeModule) + `"]`, by(devnet.DisputeModule)},
		"an address without logs": {`,"address":["` + devnet.GroupNFT + `"]`, by(devnet.GroupNFT)},
		"a topic":                 {`,"topics":[["` + ipRegistered + `"]]`, of(ipRegistered)},
		"one of two topics":       {`,"topics":[["` + ipRegistered + `","` + disputeJudged + `"]]`, of(ipRegistered, disputeJudged)},
		"both": {`,"address":["` + devnet.IPAssetRegistry + `","` + devnet.LicensingModule + `"],"topics":[["` + ipRegistered + `","` + licenseMinted + `"]]`,
			of(ipRegistered, licenseMinted)},
	} {
		want := slices.DeleteFunc(slices.Clone(all), func(g logged) bool { return !c.want(g) })
		if diff := gocmp.Diff(want, logs(t, d.EVMURL(), from, to, c.filter)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestALogSaysWhereItIs(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Collections: 30})
	all := logs(t, d.EVMURL(), 0, d.EVMStart(), "")
	crowded, transactions := 0, map[string]bool{}
	for i, g := range all {
		switch follows := i > 0 && all[i-1].BlockNumber == g.BlockNumber; {
		case follows && number(t, g.LogIndex) != number(t, all[i-1].LogIndex)+1, !follows && g.LogIndex != "0x0":
			t.Fatalf("out of place: %+v", g)
		case follows:
			crowded++
		case i > 0 && number(t, g.BlockNumber) < number(t, all[i-1].BlockNumber):
			t.Fatalf("out of order: %+v", g)
		}
		transactions[g.TransactionHash] = true
	}
	if crowded == 0 || len(transactions) == 0 {
		t.Errorf("%d logs in %d transactions, %d share a block", len(all), len(transactions), crowded)
	}
	middle := all[len(all)/2]
	block := result[struct{ Hash string }](t, d.EVMURL(), "eth_getBlockByNumber", `"`+middle.BlockNumber+`",false`)
	if block.Hash != middle.BlockHash {
		t.Errorf("%+v is not in %+v", middle, block)
	}
	same := logs(t, d.EVMURL(), number(t, middle.BlockNumber), number(t, middle.BlockNumber), "")
	byHash := result[[]logged](t, d.EVMURL(), "eth_getLogs", `{"blockHash":"`+block.Hash+`"}`)
	if diff := gocmp.Diff(same, byHash); diff != "" || len(same) == 0 {
		t.Errorf("by hash (-want +got):\n%s", diff)
	}
}

func TestAnyPartOfTheLogsIsTheSame(t *testing.T) {
	o := devnet.Options{Interval: -1, Collections: 30, Seed: 5}
	d, twin := start(t, o), start(t, o)
	whole := logs(t, d.EVMURL(), 0, d.EVMStart(), "")
	var parts []logged
	for from := int64(0); from <= d.EVMStart(); from += 37 {
		parts = append(parts, logs(t, twin.EVMURL(), from, min(from+36, d.EVMStart()), "")...)
	}
	if diff := gocmp.Diff(whole, parts); diff != "" {
		t.Errorf("in parts of a twin (-whole +parts):\n%s", diff)
	}
	o.Seed = 6
	other := start(t, o)
	if gocmp.Equal(whole[:10], logs(t, other.EVMURL(), 0, d.EVMStart(), "")[:10]) {
		t.Error("another seed makes the same logs")
	}
}

func TestTooManyBlocksAreRefused(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Collections: 3})
	for most, refused := range map[int64]int64{10_000: 11_000, 100: 1100} {
		d.EVM().SetRange(most)
		logs(t, d.EVMURL(), 1000, refused-1, "")
		if r := call(t, d.EVMURL(), "eth_getLogs", fmt.Sprintf(`{"fromBlock":"0x3e8","toBlock":"0x%x"}`, refused)); r.Error == nil || r.Error.Code != -32005 {
			t.Errorf("more than %d blocks: %+v", most, r)
		}
	}
}

func TestBlocksOfAChainSetBackHaveOtherHashes(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Collections: 3})
	type block struct{ Hash, ParentHash string }
	at := func(n int64) block {
		return result[block](t, d.EVMURL(), "eth_getBlockByNumber", fmt.Sprintf(`"0x%x",false`, n))
	}
	head := d.EVM().Height()
	below := at(head - 5)
	for range 2 {
		before := at(head)
		d.SetBack(3)
		d.Advance(3)
		if after := at(head); after == before || after.ParentHash != at(head-1).Hash {
			t.Errorf("%+v came back as %+v", before, after)
		}
	}
	if at(head-5) != below || at(head-2).ParentHash != at(head-3).Hash {
		t.Error("more was taken away than was said")
	}
}

func TestTheExecutionClientFailsOnItsOwn(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Collections: 3})
	body := `{"id":1,"method":"eth_chainId"}`
	must(t, d.SetFaults(devnet.Faults{EVM: devnet.Fault{ErrorRate: 1, ErrorStatus: 429}}))
	if resp, _ := post(t, d.EVMURL(), body); resp.StatusCode != http.StatusTooManyRequests {
		t.Error(resp.Status)
	}
	must(t, d.SetFaults(devnet.Faults{EVM: devnet.Fault{Outage: devnet.Refuse}}))
	if _, err := client.Post(d.EVMURL(), "application/json", strings.NewReader(body)); err == nil {
		t.Error("answered while out")
	}
	get(t, d, "/staking/params", 0)
	must(t, d.SetFaults(devnet.Faults{}))
	before := d.Stats().EVM
	post(t, d.EVMURL(), "["+body+","+body+"]")
	if diff := gocmp.Diff(before+1, d.Stats().EVM); diff != "" {
		t.Errorf("stats (-want +got):\n%s", diff)
	}
}
