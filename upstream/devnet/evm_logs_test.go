package devnet_test

import (
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// ipRegistered is the first topic of a registration.
const ipRegistered = "0x02ad3a2e0356b65fdfe4a73c825b78071ae469db35162978518b8c258abb3767"

// A registration on Story's test network, in block 23425318. Its URI is left out.
var realRegistration = logEntry{
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
		expect.NoDiff(t, logEntry{Address: g.Address, Topics: g.Topics, Data: g.Data, BlockNumber: real.BlockNumber}, real, "registration")
		if addressAt(wordAt(t, g.Data, 0)) == addressAt(g.Topics[2]) {
			t.Errorf("registration = %+v, want an account that is not the contract", g)
		}
		at := time.Unix(number(t, wordAt(t, g.Data, 3)), 0)
		if at.Before(time.Date(2025, 2, 13, 0, 0, 0, 0, time.UTC)) || at.After(time.Date(2026, 9, 11, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("time of the registration = %v, want one since the network began", at)
		}
	}
}
