package main

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// A node that was stopped within the commit of a block never indexes the block's transactions. Subscribers are told
// of them, and tx answers as the node does.
func TestTransactionThatItsNodeNeverIndexesIsAnnouncedAndNotFound(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1})
	r := startRunning(t, d, func(c *config.Config) { c.RPC.Listen = "127.0.0.1:0" })
	if err := d.Node().SetFaults(devnet.Fault{}, devnet.Fault{Unindexed: true}); err != nil {
		t.Fatal(err)
	}
	c, err := dialSocket(t, r, "")
	if err != nil {
		t.Fatal(err)
	}
	raw := []byte("\n\x02\n\x00\x12\x02\n\x00") // a body and what it is authorized by
	digest := sha256.Sum256(raw)
	c.say(`{"id":1,"method":"subscribe","params":{"query":"tm.event='Tx' AND tx.hash='%X'"}}`, digest)
	c.hear()
	c.say(`{"id":2,"method":"broadcast_tx_sync","params":{"tx":"%s"}}`, base64.StdEncoding.EncodeToString(raw))
	if got := c.hear(); !strings.Contains(got, `"code":0`) {
		t.Fatal(got)
	}
	d.Advance(1)
	event := gjson.Get(c.hear(), "result.data.value.TxResult")
	if got, want := event.Get("height").String(), fmt.Sprint(d.Height()); got != want {
		t.Errorf("the event is of block %q, want %s", got, want)
	}
	call := fmt.Sprintf(`{"id":1,"method":"tx","params":{"hash":"%s"}}`, base64.StdEncoding.EncodeToString(digest[:]))
	if got, want := r.do(http.MethodPost, "http://"+r.RPCAddr(), call).body, fmt.Sprintf(`"data":"tx (%X) not found"`, digest); !strings.Contains(got, want) {
		t.Errorf("tx answers %s, want %s", got, want)
	}
}
