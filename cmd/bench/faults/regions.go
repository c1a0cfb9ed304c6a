package faults

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// regionLatencies are the latencies between the parent and its children, which repeat from the fourth child on.
var regionLatencies = []int{20, 100, 250} // ms

// parentLink is the link of the children to their parent.
const parentLink = "parent"

// startParent starts the tipcache that the replicas read in place of a node. It returns how they are started.
func (b *bed) startParent(ctx context.Context, s rig.Serving) rig.Serving {
	rpc := rig.FreeAddr()
	s.Flags = append(s.Flags, "--rpc-listen", rpc)
	b.parent = b.Replica(ctx, s)
	return rig.Serving{Node: b.parent.URL, Comet: "http://" + rpc, Env: s.Env, Flags: []string{"--shape", "node"}}
}

// region returns s with the parent behind a link with the latency of child n.
func (b *bed) region(s rig.Serving, n int) rig.Serving {
	latency := regionLatencies[n%len(regionLatencies)]
	toxic := fmt.Sprintf(`{"type":"latency","stream":"downstream","attributes":{"latency":%d}}`, latency)
	for _, server := range []*string{&s.Node, &s.Comet} {
		*server = "http://" + b.through(parentLink, rig.Host(*server))
		link := b.links[parentLink]
		_, err := link[len(link)-1].Toxics.AddToxicJson(strings.NewReader(toxic))
		rig.Check(err)
	}
	return s
}

// parentKilled kills the parent, which starts again after a time.
func parentKilled(hold time.Duration) fault {
	return killed("the parent killed", hold, func(b *bed) server { return b.parent })
}
