package devnet_test

import (
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

func field(number byte, value string) string {
	return string([]byte{number<<3 | 2, byte(len(value))}) + value
}

func TestBroadcastTransactionIsAnnouncedAndFound(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Dialect: devnet.Cosmos})
	message := field(1, "cosmos1from") + field(2, "cosmos1to") + field(3, field(1, "stake")+field(2, "5"))
	raw := field(1, field(1, field(1, "/cosmos.bank.v1beta1.MsgSend")+field(2, message))) + field(2, field(1, ""))
	hash := sha256.Sum256([]byte(raw))
	text := base64.StdEncoding.EncodeToString([]byte(raw))

	conn := dial(t, d.CometURL())
	call := func(method, params string) string {
		_, answer := post(t, d.CometURL(), fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
		return string(answer)
	}
	send(t, conn, 1, "subscribe", fmt.Sprintf("tm.event='Tx' AND tx.hash='%X'", hash))
	receive(t, conn)
	for _, step := range []struct{ method, params, want string }{
		{"broadcast_tx_sync", `{"tx":"` + text + `"}`, fmt.Sprintf(`"result":{"code":0,"data":"","log":"","codespace":"","hash":"%X"}`, hash)},
		{"broadcast_tx_sync", `{"tx":"` + text + `"}`, `"data":"tx already exists in cache"`},
		{"tx", `{"hash":"` + base64.StdEncoding.EncodeToString(hash[:]) + `"}`, fmt.Sprintf(`"data":"tx (%X) not found"`, hash)},
		{"tx_search", fmt.Sprintf(`{"query":"tx.hash='%X'"}`, hash), `"result":{"txs":[],"total_count":"0"}`},
	} {
		expect.Contains(t, call(step.method, step.params), step.want, "%s", step.method)
	}
	d.Advance(1)
	_, event, err := conn.Read(t.Context())
	if err != nil || !strings.Contains(string(event), `"value":{"TxResult":{"height":"1001","index":1,"tx":"`+text+`"`) {
		t.Errorf("event = %s, %v; want the transaction in block 1001", event, err)
	}
	for method, params := range map[string]string{"tx": `{"hash":"` + base64.StdEncoding.EncodeToString(hash[:]) + `"}`, "tx_search": fmt.Sprintf(`{"query":"tx.hash='%X'"}`, hash)} {
		expect.Contains(t, call(method, params), fmt.Sprintf(`{"hash":"%X","height":"1001","index":1,`, hash), "%s", method)
	}
}
