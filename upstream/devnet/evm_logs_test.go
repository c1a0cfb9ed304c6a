package devnet_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/upstream/devnet"
)

// The first topics of the events.
const (
	ipRegistered     = "0x02ad3a2e0356b65fdfe4a73c825b78071ae469db35162978518b8c258abb3767"
	licenseMinted    = "0x0d96f072d487d7f8b4891a4e4cf14e8cdad444a34248230085c20808d57caa1a"
	disputeRaised    = "0x0d33aef6594f31a48636b65156c5ef95cc55d30bc086f59468bb1461153e8743"
	disputeRaisedBy  = "0x4e5e36f19970922c3ec3bdf165b280da2032e133d27ba5ef4a78e10c8406f1e1"
	disputeJudged    = "0xfa3dcf1b0e225a1550712d56af15c1babdd6997813dfe7559f127361edeb31e3"
	disputeCancelled = "0xfebcb1416e54dcfc6be64b1ad5531b7ffe4733b94972361567dd8da40e404c03"
	disputeResolved  = "0xe552ae9fc3589b0b34444687568547a934871d53843ce14f33940335d4d70e71"
	taggedAsRelated  = "0xf0b760f19317a7e4ea4ac34ecddaff62bcecf43c393f3994450d0499e173b327"
)

func TestCollectionsAreThoseAtTheStart(t *testing.T) {
	d := start(t, devnet.Options{Seed: 3, Interval: -1, Collections: 40})
	d.Advance(200)
	want := slices.Collect(d.Collections())
	later := slices.Collect(d.CollectionsAt(d.EVM().Height()))
	if len(want) != 40 || len(later) != 40 || gocmp.Equal(want, later) {
		t.Errorf("%d collections stand still at %d", len(want), len(later))
	}
	groups, seen := 0, map[string]bool{}
	for _, c := range want {
		seen[c.Address] = true
		if c.UpdatedAt.Before(c.CreatedAt) || c.AssetCount < 1 || c.JudgedDisputeCount+c.CancelledDisputeCount > c.RaisedDisputeCount {
			t.Errorf("makes no sense: %+v", c)
		}
		if strings.EqualFold(c.Address, devnet.GroupNFT) {
			groups++
		}
	}
	foreign := logs(t, d.EVMURL(), 0, d.EVMStart(), fmt.Sprintf(`,"topics":[["`+ipRegistered+`"],["0x%064x"]]`, 1))
	if groups != 1 || len(foreign) == 0 || len(seen) != 40 {
		t.Errorf("%d collections are the groups, %d assets are foreign", groups, len(foreign))
	}
}

// A registration on Story's test network, in block 23425318. Its URI is left out.
var realRegistration = logged{
	Address: "0x77319b4031e6ef1250907aa00018b8b1c67a244b",
	Topics: []string{
		ipRegistered,
		"0x0000000000000000000000000000000000000000000000000000000000000523",
		"0x000000000000000000000000538048a26dbcc7a1dd446762098b0bfafa3a1472",
		"0x0000000000000000000000000000000000000000000000000000000000000023",
	},
	Data: "0x" +
		"0000000000000000000000001653b905597e0f778c0e9c2d8a9d5c003ee56614" +
		"0000000000000000000000000000000000000000000000000000000000000080" +
		"00000000000000000000000000000000000000000000000000000000000000c0" +
		"000000000000000000000000000000000000000000000000000000006aa24b41" +
		"000000000000000000000000000000000000000000000000000000000000001c" +
		"313331353a20417572656d495020436f6c6c656374696f6e2023333500000000" +
		"0000000000000000000000000000000000000000000000000000000000000000",
	BlockNumber: "0x1657126",
}

func TestRegistrationsAreLikeARealOne(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Collections: 20})
	for _, g := range logs(t, d.EVMURL(), 0, d.EVMStart(), `,"topics":[["`+ipRegistered+`"]]`) {
		real := realRegistration
		real.Topics = append([]string{ipRegistered}, g.Topics[1:]...)
		real.Data = wordAt(t, g.Data, 0) + real.Data[2+64:2+3*64] + wordAt(t, g.Data, 3)[2:] + real.Data[2+4*64:]
		if diff := gocmp.Diff(real, logged{Address: g.Address, Topics: g.Topics, Data: g.Data, BlockNumber: real.BlockNumber}); diff != "" {
			t.Errorf("registration (-real +here):\n%s", diff)
		}
		if addressAt(wordAt(t, g.Data, 0)) == addressAt(g.Topics[2]) {
			t.Errorf("the account is the contract: %+v", g)
		}
		at := time.Unix(number(t, wordAt(t, g.Data, 3)), 0)
		if at.Before(time.Date(2025, 2, 13, 0, 0, 0, 0, time.UTC)) || at.After(time.Date(2026, 9, 11, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("registered at %v", at)
		}
	}
}
