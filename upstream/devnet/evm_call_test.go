package devnet_test

import (
	"fmt"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream/devnet"
)

func TestContractsExistFromTheirDeploymentOn(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Collections: 3})
	head := int(d.EVM().Height())
	code := func(address string, block int) string {
		return result[string](t, d.EVMURL(), "eth_getCode", fmt.Sprintf(`%q,"0x%x"`, address, block))
	}
	var found []int
	for _, contract := range []string{devnet.IPAssetRegistry, devnet.LicensingModule, devnet.DisputeModule, devnet.GroupNFT} {
		at := sort.Search(head, func(block int) bool { return code(contract, block) != "0x" })
		if at == 0 || at > 1000 {
			t.Errorf("%s is deployed in block %d", contract, at)
		}
		found = append(found, at)
	}
	if !slices.IsSorted(found) || len(slices.Compact(found)) != 4 {
		t.Errorf("deployed in %v", found)
	}
	if got := code(v5, head); got != "0x" {
		t.Errorf("an account has code %s", got)
	}
	first := logs(t, d.EVMURL(), 0, 1010, `,"topics":[["`+ipRegistered+`"]]`)[0]
	ip, at := addressAt(wordAt(t, first.Data, 0)), int(number(t, first.BlockNumber))
	if code(ip, at) == "0x" || code(ip, at-1) != "0x" {
		t.Errorf("the account %s does not begin in block %d", ip, at)
	}
}

func TestAccountsSayWhichTokenTheyAreOf(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Collections: 20})
	token := func(ip, block string) string {
		return result[string](t, d.EVMURL(), "eth_call", fmt.Sprintf(`{"to":%q,"data":"0xfc0c546a"},%q`, ip, block))
	}
	for _, g := range logs(t, d.EVMURL(), 1000, 1400, `,"topics":[["`+ipRegistered+`"]]`) {
		want := g.Topics[1] + g.Topics[2][2:] + g.Topics[3][2:]
		ip := addressAt(wordAt(t, g.Data, 0))
		if got := token(ip, "latest"); got != want {
			t.Errorf("%s: got %s, want %s", ip, got, want)
		}
		if got := token(ip, fmt.Sprintf("0x%x", number(t, g.BlockNumber)-1)); got != "0x" {
			t.Errorf("%s is there before its registration: %s", ip, got)
		}
	}
	if got := token(v5, "latest"); got != "0x" {
		t.Errorf("who is no IP says %s", got)
	}
}

func TestTheDisputeModuleRemembersDisputes(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Collections: 60})
	record := func(id, block string) string {
		return result[string](t, d.EVMURL(), "eth_call", fmt.Sprintf(`{"to":%q,"data":"0x564a565d%s"},%q`, devnet.DisputeModule, strings.TrimPrefix(id, "0x"), block))
	}
	nobody := "0x" + strings.Repeat("0", 40)
	begun := logs(t, d.EVMURL(), 0, d.EVMStart(), `,"topics":[["`+disputeRaised+`","`+disputeRaisedBy+`","`+taggedAsRelated+`"]]`)
	last := int64(0)
	for _, g := range begun {
		id, about := wordAt(t, g.Data, 0), wordAt(t, g.Data, 1)
		if g.Topics[0] == taggedAsRelated {
			about = wordAt(t, g.Data, 2)
		} else if n := number(t, id); n <= last {
			t.Errorf("dispute %d comes after %d", n, last)
		} else {
			last = n
		}
		got := record(id, "latest")
		if wordAt(t, got, 0) != about || len(got) != 2+8*64 {
			t.Errorf("dispute %s is about %s, want %s", id, got, about)
		}
		if got := record(id, fmt.Sprintf("0x%x", number(t, g.BlockNumber)-1)); addressAt(wordAt(t, got, 0)) != nobody {
			t.Errorf("dispute %s is there before it began: %s", id, got)
		}
	}
	for _, id := range []string{strings.Repeat("0", 64), strings.Repeat("f", 64), fmt.Sprintf("%064x", 4), fmt.Sprintf("%064x", last+1000)} {
		if got := record(id, "latest"); addressAt(wordAt(t, got, 0)) != nobody {
			t.Errorf("there is a dispute %s: %s", id, got)
		}
	}
}
