package peers

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// Probe runs tipcache probe on tipcache, on an nginx that caches for a second, and on their node, and writes its picture to
// r.Picture.
func Probe(ctx context.Context, r *rig.Rig) {
	d := r.Chain(devnet.Options{Dialect: devnet.Cosmos, Seed: 1, Interval: 2 * time.Second})
	o := origin{node: d.NodeURL(), comet: d.CometURL(), fresh: time.Second}
	servers := beforeAll(ctx, r, []string{tipcacheName, nginxName}, o)
	fmt.Fprint(r.W, rig.Must(rig.Output(ctx, "", r.Bin, "probe", "tipcache="+servers[0].urls[plain], "nginx, 1 s="+servers[1].urls[plain],
		"node="+d.NodeURL(), "--tip", d.CometURL(), "--against", d.NodeURL(), "--for", rig.Sized(r, "60s", "3s"),
		"--svg", cmp.Or(r.Picture, filepath.Join(r.Dir, "probe.svg")))))
}
