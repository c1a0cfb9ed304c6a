package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet"
)

// A scenario is a setup and its faults.
type scenario struct {
	name   string
	setup  setup
	random bool // random runs use its faults, too
	faults []fault
}

// A holdFunc returns how long a fault lasts, given its usual time.
type holdFunc func(usual time.Duration) time.Duration

// scenarios returns the scenarios of the command faults.
func (c *campaign) scenarios(hold holdFunc) []scenario {
	one, two := setup{redis: oneRedis}, setup{redis: oneRedis, nodes: 2}
	second := func(n int) time.Duration { return hold(time.Duration(n) * time.Second) }
	patient := setup{redis: oneRedis, env: []string{"TIPCACHE_REDIS_TIMEOUT=2s"}, once: true} // on a busy machine Redis is slow
	sealed := setup{redis: oneRedis, env: []string{"TIPCACHE_REDIS_SEAL_KEY=a secret of the replicas"}}
	limits := []string{fmt.Sprintf("TIPCACHE_HTTP_RATE=%d/s burst %d", addressRate, 2*addressRate)}
	lie, refuse := devnet.Fault{Ahead: farAhead}, devnet.Fault{Outage: devnet.Refuse}
	oldHeaders := func(blocks int64) fault {
		return nodesFail(fmt.Sprintf("the socket is %d blocks behind", blocks), second(20), well, devnet.Fault{EventsBehind: blocks}, 0).isWithstood()
	}
	return []scenario{
		{"calm", patient, false, []fault{calm(second(20))}},
		{"rolling", patient, false, []fault{rolling}},
		{"lie", one, true, []fault{nodesFail("a lie of +10^6", second(3), well, lie, 0)}},
		{"two-nodes", two, true, []fault{nodesFail("a lie of +10^6", second(20), well, lie, 1)}},
		{"old-headers", one, true, []fault{oldHeaders(farAhead), oldHeaders(lagBy)}},
		{"silent-comet", one, true, []fault{nodesFail("CometBFT hangs", second(20), well, devnet.Fault{Stall: true}, 0).isWithstood()}},
		{"lagging", two, true, []fault{between("a node is 20 blocks behind", second(10), func(b *bed) { b.nodes[1].SetLag(lagBy) }, func(b *bed) { b.nodes[1].SetLag(0) })}},
		{"set-back", setup{}, true, []fault{backBy(setBack)}},
		{"set-back-redis", one, false, []fault{backBy(setBack)}},
		{"set-backs", two, true, []fault{backBy(1), backBy(4), backBy(9), backBy(20)}},
		{"leftovers", one, false, []fault{leftovers}},
		{"halt", one, true, []fault{between("a halt", second(20), func(b *bed) { b.chain.Halt() }, func(b *bed) { b.chain.Resume() })}},
		{"hang", one, false, []fault{hang(second(30))}},
		{"outage", one, true, []fault{nodeFault("refused", refuse, second(10))}},
		{"stalled", one, true, []fault{nodeFault("stalled", devnet.Fault{Stall: true}, second(10))}},
		{"answers", one, true, []fault{
			nodeFault("reset", devnet.Fault{Outage: devnet.Reset}, second(7)), nodeFault("nonsense", devnet.Fault{Nonsense: true}, second(7)),
			nodeFault("half of the answers are errors", devnet.Fault{ErrorRate: 0.5}, second(7)),
		}},
		{"redis", one, true, []fault{killed("Redis killed", second(8), func(b *bed) server { return b.redis })}},
		{"replica", one, true, []fault{killed("a replica killed", second(8), func(b *bed) server { return b.last() })}},
		{"sentinel", setup{redis: sentinels}, false, []fault{failover}},
		{"cluster", setup{redis: cluster}, false, []fault{failover}},
		{"stops", setup{redis: oneRedis, stops: true}, true, slices.Concat(stops(second(1)), stops(second(20)))},
		{"sessions", setup{nodes: 2, pools: true}, false, []fault{linkFault(nodeLink, "latency", second(4)), rolling, nodesFail("a node is away", second(5), refuse, refuse, 1), backBy(20)}},
		{"sessions-redis", setup{redis: sentinels, nodes: 2, pools: true}, false, []fault{linkFault(nodeLink, "latency", second(4)), rolling, nodesFail("a node is away", second(5), refuse, refuse, 1), failover, backBy(20)}},
		{"regions", setup{pools: true, regions: true}, false, []fault{calm(second(20)), backBy(20)}},
		{"regions-outage", setup{regions: true, once: true}, false, []fault{nodeFault("refused", refuse, second(10)), killed("the parent killed", second(8), func(b *bed) server { return b.parent })}},
		{"neighbour", one, true, []fault{leasesHeld(second(40))}},
		{"neighbour-seal", sealed, false, []fault{leasesHeld(second(40))}},
		{"net", setup{redis: oneRedis, links: true}, true, networkFaults(second(6))},
		c.hostile("hostile", "hostile requests", setup{redis: oneRedis, apis: true, keep: hostileKeep, env: limits}, (*attacker).send),
		c.hostile("unknown-paths", "requests for unknown paths", setup{redis: oneRedis, apis: true}, (*attacker).unknown),
	}
}

// attacks returns the scenarios of the command memory, for each size of cache.memory.
func (c *campaign) attacks(holdFunc) (all []scenario) {
	sizes, length := []int{32, 64, 256}, 10*time.Second
	if c.short {
		sizes, length = sizes[:1], 4*time.Second
	}
	for _, mebibytes := range sizes {
		for _, a := range attacks {
			if a.short || !c.short {
				all = append(all, a.scenario(mebibytes, length))
			}
		}
	}
	return all
}

// usual is the holdFunc of runs that are not random.
func usual(hold time.Duration) time.Duration { return hold }

// randomFault draws a scenario and one of its faults, which lasts a second and a part of its usual time.
func (c *campaign) randomFault(random *rand.Rand) fault {
	all := slices.DeleteFunc(c.scenarios(func(usual time.Duration) time.Duration {
		return time.Second + time.Duration(random.Int64N(int64(min(usual, 19*time.Second))))
	}), func(s scenario) bool { return !s.random })
	faults := all[random.IntN(len(all))].faults
	return faults[random.IntN(len(faults))]
}
