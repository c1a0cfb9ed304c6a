package devnet_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestRolledBackChainGrowsAgain(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	d.Advance(60)
	conn := dial(t, d.CometURL())
	old, kept := map[string]string{}, map[string]string{}
	for _, q := range []string{"/staking/validators?pagination.limit=70", "/staking/validators/" + v5, "/distribution/validators/" + v5} {
		old[q], kept[q] = get(t, d, q, 1060), get(t, d, q, 1010)
	}
	evm := d.EVM().Height()
	if d.RollBack(50); d.Height() != 1010 || d.EVM().Height() != evm-50 {
		t.Fatalf("heights after the rollback = %d and %d, want 1010 and %d", d.Height(), d.EVM().Height(), evm-50)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, _, err := conn.Read(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("WebSocket after the rollback: %v, want it closed", err)
	}
	d.Advance(50)
	for q := range old {
		if get(t, d, q, 1010) != kept[q] || get(t, d, q, 1060) == old[q] {
			t.Errorf("%s: changed at 1010, or is unchanged at 1060", q)
		}
	}
}

func TestServerCanReportBlocksAboveTip(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	conn := dial(t, d.CometURL())
	send(t, conn, 1, "subscribe", newHeader)
	receive(t, conn)
	expect.NoError(t, d.SetFaults(devnet.Faults{Comet: devnet.Fault{Ahead: 1_000_000}}))
	for path, field := range map[string]string{"/abci_info": "last_block_height", "/status": "latest_block_height"} {
		_, body := fetch(t, d.CometURL()+path, 0)
		expect.Contains(t, body, fmt.Sprintf(`%q:"1001000"`, field), "%s", path)
	}
	d.Advance(1)
	expect.Equal(t, receive(t, conn).Result.Data.Value.Header.Height, "1001001", "height of the event")
	if status, _ := fetch(t, d.NodeURL()+"/staking/pool", 1_001_000); status == http.StatusOK {
		t.Error("node answered at a block it does not have")
	}
	expect.NoError(t, d.SetFaults(devnet.Faults{}))
	d.Advance(1)
	expect.Equal(t, receive(t, conn).Result.Data.Value.Header.Height, "1002", "height of the event afterwards")
}
