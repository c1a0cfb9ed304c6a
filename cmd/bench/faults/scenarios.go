package faults

import (
	"cmp"
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

// scenarios returns the scenarios of the command faults.
func (c *campaign) scenarios() []scenario {
	one, two := setup{redis: oneRedis}, setup{redis: oneRedis, nodes: 2}
	patient := setup{redis: oneRedis, env: []string{"TIPCACHE_REDIS_TIMEOUT=2s"}, once: true} // on a busy machine Redis is slow
	sealed := setup{redis: oneRedis, env: []string{"TIPCACHE_REDIS_SEAL_KEY=a secret of the replicas"}}
	limits := []string{fmt.Sprintf("TIPCACHE_HTTP_RATE=%d/s burst %d", addressRate, 2*addressRate)}
	lie, refuse := devnet.Fault{Ahead: farAhead}, devnet.Fault{Outage: devnet.Refuse}
	oldHeaders := func(blocks int64) fault {
		return nodesFail(fmt.Sprintf("the socket is %d blocks behind", blocks), 20*time.Second, well, devnet.Fault{EventsBehind: blocks}, 0).isWithstood()
	}
	return []scenario{
		{"calm", patient, false, []fault{calm(20 * time.Second)}},
		{"rolling", patient, false, []fault{rolling}},
		{"lie", one, true, []fault{nodesFail("a lie of +10^6", 3*time.Second, well, lie, 0)}},
		{"two-nodes", two, true, []fault{nodesFail("a lie of +10^6", 20*time.Second, well, lie, 1)}},
		{"old-headers", one, true, []fault{oldHeaders(farAhead), oldHeaders(lagBy)}},
		{"silent-comet", one, true, []fault{nodesFail("CometBFT hangs", 20*time.Second, well, devnet.Fault{Stall: true}, 0).isWithstood()}},
		{"lagging", two, true, []fault{between("a node is 20 blocks behind", 10*time.Second, func(b *bed) { b.nodes[1].SetLag(lagBy) }, func(b *bed) { b.nodes[1].SetLag(0) })}},
		{"set-back", setup{}, true, []fault{backBy(setBack)}},
		{"set-back-redis", one, false, []fault{backBy(setBack)}},
		{"set-backs", two, true, []fault{backBy(1), backBy(4), backBy(9), backBy(20)}},
		{"leftovers", one, false, []fault{leftovers}},
		{"halt", one, true, []fault{between("a halt", 20*time.Second, func(b *bed) { b.chain.Halt() }, func(b *bed) { b.chain.Resume() })}},
		{"hang", one, false, []fault{hang(30 * time.Second)}},
		{"outage", one, true, []fault{nodeFault("refused", refuse, 10*time.Second)}},
		{"stalled", one, true, []fault{nodeFault("stalled", devnet.Fault{Stall: true}, 10*time.Second)}},
		{"answers", one, true, []fault{
			nodeFault("reset", devnet.Fault{Outage: devnet.Reset}, 7*time.Second), nodeFault("nonsense", devnet.Fault{Nonsense: true}, 7*time.Second),
			nodeFault("half of the answers are errors", devnet.Fault{ErrorRate: 0.5}, 7*time.Second),
		}},
		{"redis", one, true, []fault{killed("Redis killed", 8*time.Second, func(b *bed) server { return b.redis })}},
		{"replica", one, true, []fault{killed("a replica killed", 8*time.Second, func(b *bed) server { return b.last() })}},
		{"sentinel", setup{redis: sentinels}, false, []fault{failover}},
		{"cluster", setup{redis: cluster}, false, []fault{failover}},
		{"stops", setup{redis: oneRedis, stops: true}, true, slices.Concat(stops(time.Second), stops(20*time.Second))},
		{"sessions", setup{nodes: 2, pools: true}, false, []fault{linkFault(nodeLink, "latency", 4*time.Second), rolling, nodesFail("a node is away", 5*time.Second, refuse, refuse, 1), backBy(20)}},
		{"sessions-redis", setup{redis: sentinels, nodes: 2, pools: true}, false, []fault{linkFault(nodeLink, "latency", 4*time.Second), rolling, nodesFail("a node is away", 5*time.Second, refuse, refuse, 1), failover, backBy(20)}},
		{"regions", setup{pools: true, regions: true}, false, []fault{calm(20 * time.Second), backBy(20)}},
		{"regions-outage", setup{regions: true, once: true}, false, []fault{nodeFault("refused", refuse, 10*time.Second), killed("the parent killed", 8*time.Second, func(b *bed) server { return b.parent })}},
		{"neighbour", one, true, []fault{leasesHeld(40 * time.Second)}},
		{"neighbour-seal", sealed, false, []fault{leasesHeld(40 * time.Second)}},
		{"net", setup{redis: oneRedis, links: true}, true, networkFaults(6 * time.Second)},
		c.hostile("hostile", "hostile requests", setup{redis: oneRedis, apis: true, keep: hostileKeep, env: limits}, (*attacker).send),
		c.hostile("unknown-paths", "requests for unknown paths", setup{redis: oneRedis, apis: true}, (*attacker).unknown),
	}
}

// attacks returns the scenarios of the command memory, for each size of cache.memory.
func (c *campaign) attacks() (all []scenario) {
	sizes, length := []int{32, 64, 256}, 10*time.Second
	if c.short {
		sizes, length = sizes[:1], 4*time.Second
	}
	length = cmp.Or(c.length, length)
	for _, mebibytes := range sizes {
		for _, a := range attacks {
			if a.short || !c.short {
				all = append(all, a.scenario(mebibytes, length))
			}
		}
	}
	return all
}

// randomFault draws a scenario and one of its faults, which lasts a second and a part of its usual time.
func (c *campaign) randomFault(random *rand.Rand) fault {
	all := slices.DeleteFunc(c.scenarios(), func(s scenario) bool { return !s.random })
	faults := all[random.IntN(len(all))].faults
	f := faults[random.IntN(len(faults))]
	if f.hold > 0 {
		f.hold = time.Second + time.Duration(random.Int64N(int64(min(f.hold, 19*time.Second))))
		f.withstood = false // after an earlier fault, a replica may wait again for something that does not work
	}
	return f
}
