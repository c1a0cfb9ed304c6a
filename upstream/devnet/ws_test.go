package devnet_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A message has the members of a WebSocket message that tests check.
type message struct {
	ID    int
	Error struct {
		Code int
		Data string
	}
	Result struct {
		Query string
		Data  struct {
			Type  string
			Value struct {
				Header struct {
					Height, Time string
					ChainID      string `json:"chain_id"`
				}
				Block struct{ Header struct{ Height string } }
			}
		}
	}
}

func dial(t *testing.T, base string) *websocket.Conn {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), "ws"+strings.TrimPrefix(base, "http")+"/websocket", nil)
	expect.NoError(t, err)
	conn.SetReadLimit(1 << 20)
	t.Cleanup(func() { conn.CloseNow() })
	return conn
}

func send(t *testing.T, conn *websocket.Conn, id int, method, query string) {
	t.Helper()
	text := fmt.Sprintf(`{"jsonrpc":"2.0","method":%q,"id":%d,"params":{"query":%q}}`, method, id, query)
	expect.NoError(t, conn.Write(t.Context(), websocket.MessageText, []byte(text)))
}

func receive(t *testing.T, conn *websocket.Conn) (m message) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	_, body, err := conn.Read(ctx)
	expect.NoError(t, err)
	decode(t, string(body), &m)
	return m
}

const (
	newHeader = "tm.event='NewBlockHeader'"
	newBlock  = "tm.event='NewBlock'"
)

func TestWebSocketReportsEveryBlock(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, ChainID: "test-1"})
	conn := dial(t, d.CometURL())
	send(t, conn, 1, "subscribe", newHeader)
	send(t, conn, 2, "subscribe", newBlock)
	receive(t, conn)
	receive(t, conn)
	d.Advance(2)
	for _, height := range []string{"1001", "1002"} {
		block, header := receive(t, conn), receive(t, conn)
		h := header.Result.Data.Value.Header
		got := []string{fmt.Sprint(header.ID), header.Result.Query, header.Result.Data.Type, h.Height, h.ChainID,
			fmt.Sprint(block.ID), block.Result.Data.Type, block.Result.Data.Value.Block.Header.Height}
		want := []string{"1", newHeader, "tendermint/event/NewBlockHeader", height, "test-1", "2", "tendermint/event/NewBlock", height}
		expect.NoDiff(t, got, want, "events")
		if at, err := time.Parse(time.RFC3339Nano, h.Time); err != nil || time.Since(at) > time.Minute || time.Since(at) < 0 {
			t.Errorf("time of the header = %s, %v; want one within the last minute", h.Time, err)
		}
	}
}

func TestBlockCanBeReadWhenItsEventArrives(t *testing.T) {
	d := start(t, devnet.Options{Interval: 20 * time.Millisecond, StatusLead: 5 * time.Millisecond})
	conn := dial(t, d.CometURL())
	send(t, conn, 1, "subscribe", newHeader)
	receive(t, conn)
	for range 10 {
		var height int64
		decode(t, receive(t, conn).Result.Data.Value.Header.Height, &height)
		get(t, d, "/staking/pool", height)
	}
}

func TestArgumentsThatCannotBeReadAreRefused(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	for _, params := range []string{`{"height":"abc"}`, `{"height":[]}`, `{"hash":5}`} {
		_, body := post(t, d.CometURL(), `{"id":1,"method":"block","params":`+params+`}`)
		expect.Contains(t, string(body), `"code":-32602`, "block with %s", params)
	}
}

func TestStoppingNodeNotifiesSubscribers(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	conn := dial(t, d.CometURL())
	send(t, conn, 1, "subscribe", newBlock)
	receive(t, conn)
	stopped := make(chan error)
	go func() { stopped <- d.SetFaults(devnet.Faults{Comet: devnet.Fault{Outage: devnet.Refuse}}) }()
	expect.Equal(t, receive(t, conn).Error.Data, "subscription was canceled (reason: CometBFT exited)", "error")
	if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != -1 {
		t.Errorf("WebSocket closed with %v, want no close frame", err)
	}
	expect.NoError(t, <-stopped)
}

func TestStalledWebsocketHoldsEventsBack(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	conn := dial(t, d.CometURL())
	send(t, conn, 1, "subscribe", newHeader)
	receive(t, conn)
	expect.NoError(t, d.SetFaults(devnet.Faults{Comet: devnet.Fault{Stall: true}}))
	d.Advance(1)
	time.Sleep(20 * time.Millisecond)
	expect.NoError(t, d.SetFaults(devnet.Faults{}))
	expect.Equal(t, receive(t, conn).Result.Data.Value.Header.Height, "1001", "block after the stall")
}

func TestStatusRunsAheadOfReadableState(t *testing.T) {
	d := start(t, devnet.Options{Interval: 50 * time.Millisecond, StatusLead: time.Minute})
	expect.EventuallyEqual(t, "height 1001 in /status", func() string { return statusHeight(t, d.CometURL()) }, "1001")
	_, body := fetch(t, d.CometURL()+"/abci_info", 0)
	expect.Contains(t, body, `"last_block_height":"1000"`, "/abci_info")
	status, body := fetch(t, d.NodeURL()+"/staking/pool", 1001)
	expect.Equal(t, status, http.StatusInternalServerError, "status at the next block (%s)", body)
}

// statusHeight returns the height in /status.
func statusHeight(t *testing.T, base string) string {
	t.Helper()
	var answer struct {
		Result struct {
			SyncInfo struct {
				Height string `json:"latest_block_height"`
			} `json:"sync_info"`
		}
	}
	_, body := fetch(t, base+"/status", 0)
	expect.NoError(t, json.Unmarshal([]byte(body), &answer))
	return answer.Result.SyncInfo.Height
}

func TestWebSocketMayLagBehindRPC(t *testing.T) {
	for _, behind := range []int64{4, 1 << 40} {
		d := start(t, devnet.Options{Interval: -1})
		conn := dial(t, d.CometURL())
		send(t, conn, 1, "subscribe", "tm.event='NewBlockHeader'")
		receive(t, conn)
		expect.NoError(t, d.SetFaults(devnet.Faults{Comet: devnet.Fault{EventsBehind: behind}}))
		d.Advance(1)
		want := fmt.Sprint(max(1, d.Height()-behind))
		expect.Equal(t, receive(t, conn).Result.Data.Value.Header.Height, want, "%d behind %d: header", behind, d.Height())
	}
}

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
