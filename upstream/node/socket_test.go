package node

import (
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet"
)

// Whatever is wrong with CometBFT of a simulated node, its REST server tells.
func TestTipFollowsTheChainDespiteFalseHeaders(t *testing.T) {
	for name, fault := range map[string]devnet.Fault{
		"its socket sends headers of block 1":    {EventsBehind: 1 << 40},
		"its socket is 23 blocks behind":         {EventsBehind: 23},
		"it accepts connections and is silent":   {Stall: true},
		"it is a million blocks above the truth": {Ahead: 1_000_000},
	} {
		for _, dialect := range []Dialect{Story, Cosmos} {
			t.Run(name+", "+string(dialect), func(t *testing.T) {
				t.Parallel()
				d := newDevnet(t, dialect, devnet.Options{})
				p := running(t, Options{Dialect: dialect, BlockInterval: 100 * time.Millisecond, RollbackAfter: time.Second,
					Endpoints: []Endpoint{{REST: d.NodeURL(), Comet: d.CometURL()}}})
				d.Advance(30)
				waitFor(t, p, d.Height())
				mustFetch(t, p, Request{Height: AtTip})
				if err := d.SetFaults(devnet.Faults{Comet: fault}); err != nil {
					t.Fatal(err)
				}
				for range 20 {
					d.Advance(1)
					eventually(t, "the tip", func() bool { tip := p.Tip(); return tip.Known && tip.Height == d.Height() })
				}
				if tip := p.Tip(); tip.Epoch != 0 {
					t.Errorf("tip %+v of another epoch", tip)
				}
			})
		}
	}
}
