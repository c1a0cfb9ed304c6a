package devnet_test

import (
	"cmp"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/tipcache/tipcache/upstream/devnet"
)

// The first topics of the events.
const (
	ipRegistered      = "0x02ad3a2e0356b65fdfe4a73c825b78071ae469db35162978518b8c258abb3767"
	licenseMinted     = "0x0d96f072d487d7f8b4891a4e4cf14e8cdad444a34248230085c20808d57caa1a"
	disputeRaised     = "0x0d33aef6594f31a48636b65156c5ef95cc55d30bc086f59468bb1461153e8743"
	disputeRaisedBy   = "0x4e5e36f19970922c3ec3bdf165b280da2032e133d27ba5ef4a78e10c8406f1e1"
	disputeJudged     = "0xfa3dcf1b0e225a1550712d56af15c1babdd6997813dfe7559f127361edeb31e3"
	disputeCancelled  = "0xfebcb1416e54dcfc6be64b1ad5531b7ffe4733b94972361567dd8da40e404c03"
	disputeResolved   = "0xe552ae9fc3589b0b34444687568547a934871d53843ce14f33940335d4d70e71"
	taggedAsRelated   = "0xf0b760f19317a7e4ea4ac34ecddaff62bcecf43c393f3994450d0499e173b327"
	accountRegistered = "0x5be70b68c8361762980ec7d425d79fd33f6d49cac8a498e6ddf514f995b987f7"
)

// A counter makes collections of logs, in the simplest way.
type counter struct {
	t           *testing.T
	url         string
	collections map[string]*devnet.Collection // by lower-case address
	ips         map[string]string             // collection by account
	disputes    map[string]string             // account by identifier
	seen        map[string]int                // logs by first topic
	strays      int                           // disputes about no IP
}

func newCounter(t *testing.T, target string) *counter {
	return &counter{
		t: t, url: target, collections: map[string]*devnet.Collection{},
		ips: map[string]string{}, disputes: map[string]string{}, seen: map[string]int{},
	}
}

// take counts one log.
func (c *counter) take(g logged) {
	c.seen[g.Topics[0]]++
	id := ""
	if g.Topics[0] != ipRegistered && g.Topics[0] != licenseMinted {
		id = wordAt(c.t, g.Data, 0)
	}
	switch g.Topics[0] {
	case ipRegistered:
		c.register(g)
	case licenseMinted:
		c.add(addressAt(g.Topics[2]), g, func(c *devnet.Collection) *int64 { return &c.LicensesCount }, number(c.t, wordAt(c.t, g.Data, 1)))
	case disputeRaised, disputeRaisedBy:
		c.disputes[id] = addressAt(wordAt(c.t, g.Data, 1))
		c.add(c.disputes[id], g, func(c *devnet.Collection) *int64 { return &c.RaisedDisputeCount }, 1)
	case taggedAsRelated:
		c.disputes[id] = addressAt(wordAt(c.t, g.Data, 2))
	case disputeJudged:
		c.add(c.disputes[id], g, func(c *devnet.Collection) *int64 { return &c.JudgedDisputeCount }, 1)
	case disputeCancelled:
		c.add(c.disputes[id], g, func(c *devnet.Collection) *int64 { return &c.CancelledDisputeCount }, 1)
	case disputeResolved:
		c.add(c.disputes[id], g, func(c *devnet.Collection) *int64 { return &c.ResolvedDisputeCount }, 1)
	}
}

func (c *counter) register(g logged) {
	address := addressAt(g.Topics[2])
	if c.collections[address] == nil {
		c.collections[address] = &devnet.Collection{
			CollectionAddress: address, ChainID: uint64(number(c.t, g.Topics[1])),
			CreatedAt: time.Unix(number(c.t, wordAt(c.t, g.Data, 3)), 0).UTC(),
		}
	}
	ip := addressAt(wordAt(c.t, g.Data, 0))
	if c.ips[ip] != "" {
		c.t.Errorf("%s is registered again", ip)
	}
	c.ips[ip] = address
	c.add(ip, g, func(c *devnet.Collection) *int64 { return &c.AssetCount }, 1)
}

// add adds to a counter of the collection that an account belongs to.
func (c *counter) add(ip string, g logged, which func(*devnet.Collection) *int64, n int64) {
	collection := c.collections[c.ips[ip]]
	if collection == nil {
		c.strays++
		return
	}
	*which(collection) += n
	collection.UpdatedAt = time.Unix(0, number(c.t, g.BlockNumber)) // for the block
}

// sorted are the collections by address, with the times of their blocks.
func (c *counter) sorted() []devnet.Collection {
	all := make([]devnet.Collection, 0, len(c.collections))
	for _, collection := range c.collections {
		one := *collection
		block := result[struct{ Timestamp string }](c.t, c.url, "eth_getBlockByNumber", fmt.Sprintf(`"0x%x",false`, one.UpdatedAt.UnixNano()))
		one.UpdatedAt = time.Unix(number(c.t, block.Timestamp), 0).UTC()
		all = append(all, one)
	}
	return byAddress(all)
}

func byAddress(all []devnet.Collection) []devnet.Collection {
	for i := range all {
		all[i].CollectionAddress = strings.ToLower(all[i].CollectionAddress)
	}
	slices.SortFunc(all, func(a, b devnet.Collection) int { return cmp.Compare(a.CollectionAddress, b.CollectionAddress) })
	return all
}

func TestCountingTheLogsGivesTheCollections(t *testing.T) {
	d := start(t, devnet.Options{Seed: 7, Interval: -1, Collections: 60})
	d.Advance(800)
	c, next := newCounter(t, d.EVMURL()), int64(0)
	for _, height := range []int64{999, 1000, 1001, 1100, 2500, d.EVMStart(), d.EVMStart() + 1, d.EVM().Height()} {
		for _, g := range logs(t, d.EVMURL(), next, height, "") {
			c.take(g)
		}
		next = height + 1
		if diff := gocmp.Diff(byAddress(slices.Collect(d.CollectionsAt(height))), c.sorted(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("at %d (-told +counted):\n%s", height, diff)
		}
	}
	for _, topic := range []string{
		ipRegistered, licenseMinted, disputeRaised, disputeRaisedBy, disputeJudged, disputeCancelled, disputeResolved, taggedAsRelated, accountRegistered,
	} {
		if c.seen[topic] == 0 {
			t.Errorf("there is no %s", topic)
		}
	}
	if c.strays == 0 {
		t.Error("every dispute is about an IP")
	}
}

func TestCollectionsAreThoseAtTheStart(t *testing.T) {
	d := start(t, devnet.Options{Seed: 3, Interval: -1, Collections: 40})
	d.Advance(200)
	want := slices.Collect(d.Collections())
	later := slices.Collect(d.CollectionsAt(d.EVM().Height()))
	if len(want) != 40 || len(later) != 40 || gocmp.Equal(want, later) {
		t.Errorf("%d collections stand still at %d", len(want), len(later))
	}
	groups, foreign, seen := 0, 0, map[string]bool{}
	for _, c := range want {
		seen[c.CollectionAddress] = true
		if c.UpdatedAt.Before(c.CreatedAt) || c.AssetCount < 1 || c.JudgedDisputeCount+c.CancelledDisputeCount > c.RaisedDisputeCount {
			t.Errorf("makes no sense: %+v", c)
		}
		if c.CollectionAddress == devnet.GroupNFT {
			groups++
		}
		if c.ChainID != devnet.DefaultEVMChainID {
			foreign++
		}
	}
	if groups != 1 || foreign == 0 || len(seen) != 40 {
		t.Errorf("%d collections are the groups, %d are foreign", groups, foreign)
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
	for _, g := range append(logs(t, d.EVMURL(), 0, d.EVMStart(), `,"topics":[["`+ipRegistered+`"]]`), realRegistration) {
		id, _ := new(big.Int).SetString(g.Topics[3], 0)
		name, uri := textAt(t, g.Data, 1), textAt(t, g.Data, 2)
		prefix, suffix := fmt.Sprintf("%d: ", number(t, g.Topics[1])), fmt.Sprintf(" #%d", id)
		if !strings.HasPrefix(name, prefix) || !strings.HasSuffix(name, suffix) {
			t.Errorf("%q does not begin with %q and end with %q", name, prefix, suffix)
		}
		words := 4 + 2 + (len(name)+31)/32 + (len(uri)+31)/32
		if len(g.Data) != 2+64*words || number(t, wordAt(t, g.Data, 1)) != 4*32 {
			t.Errorf("want %d words, the first four at once: %s", words, g.Data)
		}
		if !strings.EqualFold(g.Address, devnet.IPAssetRegistry) || addressAt(wordAt(t, g.Data, 0)) == addressAt(g.Topics[2]) {
			t.Errorf("%+v", g)
		}
		at := time.Unix(number(t, wordAt(t, g.Data, 3)), 0)
		if at.Before(time.Date(2025, 2, 13, 0, 0, 0, 0, time.UTC)) || at.After(time.Date(2026, 9, 11, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("registered at %v", at)
		}
	}
}
