package faults

import (
	"math/rand/v2"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet"
)

// A scenario is a bed and what goes wrong in it.
type scenario struct {
	name   string
	setup  setup
	faults []fault
}

func scenarios() []scenario {
	return []scenario{
		{"lie", setup{redis: oneRedis}, []fault{lie(0, 3*time.Second)}},
		{"two-nodes", setup{redis: oneRedis, nodes: 2}, []fault{lie(1, 20*time.Second)}},
		{"lagging", setup{redis: oneRedis, nodes: 2}, []fault{lagging(1, 10*time.Second)}},
		{"set-back", setup{}, []fault{backBy(setBack)}},
		{"set-back-redis", setup{redis: oneRedis}, []fault{backBy(setBack)}},
		{"set-backs", setup{redis: oneRedis, nodes: 2}, []fault{backBy(1), backBy(4), backBy(9), backBy(20)}},
		{"leftovers", setup{redis: oneRedis}, []fault{leftovers}},
		{"halt", setup{redis: oneRedis}, []fault{halt(20 * time.Second)}},
		{"hang", setup{redis: oneRedis}, []fault{hang(30 * time.Second)}},
		{"outage", setup{redis: oneRedis}, []fault{nodeFault("refused", devnet.Fault{Outage: devnet.Refuse}, 10*time.Second)}},
		{"stalled", setup{redis: oneRedis}, []fault{nodeFault("stalled", devnet.Fault{Stall: true}, 10*time.Second)}},
		{"restart", setup{redis: oneRedis}, []fault{lateBlock(3*time.Second, 8*time.Second)}},
		{"redis", setup{redis: oneRedis}, []fault{redisOutage(8 * time.Second)}},
		{"replica", setup{redis: oneRedis}, []fault{replicaKilled(8 * time.Second)}},
		{"sentinel", setup{redis: sentinels}, []fault{failover}},
		{"cluster", setup{redis: cluster}, []fault{failover}},
		{"net", setup{redis: oneRedis, links: true, postgres: true}, networkFaults(6 * time.Second)},
	}
}

// networkFaults fail each link in each way.
func networkFaults(hold time.Duration) (all []fault) {
	for _, name := range linkNames {
		for _, weather := range weatherNames {
			all = append(all, networkFault(name, weather, hold))
		}
	}
	return all
}

// randomFault draws one of all kinds. A fault of the network is twice as likely as any other.
func randomFault(random *rand.Rand) fault {
	hold := time.Second + time.Duration(random.IntN(7000))*time.Millisecond
	all := []fault{
		lie(random.IntN(2), hold),
		lagging(random.IntN(2), hold),
		halt(hold),
		nodeFault("refused", devnet.Fault{Outage: devnet.Refuse}, hold),
		nodeFault("reset", devnet.Fault{Outage: devnet.Reset}, hold),
		nodeFault("stalled", devnet.Fault{Stall: true}, hold),
		nodeFault("half of the answers are errors", devnet.Fault{ErrorRate: 0.5}, hold),
		nodeFault("nonsense", devnet.Fault{Nonsense: true}, hold),
		redisOutage(hold),
		replicaKilled(hold),
		backBy(1 + random.Int64N(setBack)),
		networkFault(linkNames[random.IntN(len(linkNames))], weatherNames[random.IntN(len(weatherNames))], hold),
		networkFault(linkNames[random.IntN(len(linkNames))], weatherNames[random.IntN(len(weatherNames))], hold),
	}
	return all[random.IntN(len(all))]
}
