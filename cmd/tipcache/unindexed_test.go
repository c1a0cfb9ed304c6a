package main

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// A node that was stopped within the commit of a block never finds the block's transactions. A client
// that was told of one finds it by every interface.
func TestATransactionThatItsNodeNeverFindsIsFoundByEveryInterface(t *testing.T) {
	t.Parallel()
	for _, byGRPC := range []bool{false, true} {
		t.Run(fmt.Sprintf("by the node's gRPC %t", byGRPC), func(t *testing.T) {
			t.Parallel()
			d := newDevnet(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1})
			r := startRunning(t, d, func(c *config.Config) {
				c.RPC.Listen, c.GRPC.Listen = "127.0.0.1:0", "127.0.0.1:0"
				if byGRPC {
					c.Chain.GRPC = []string{d.Node().GRPCAddr()}
				}
			})
			if byGRPC {
				r.eventually("gRPC", func() bool { return gjson.Get(r.get(r.admin+"/readyz").body, "nodes.0.grpc").String() == "ok" })
			}
			if err := d.Node().SetFaults(devnet.Fault{}, devnet.Fault{Unindexed: true}); err != nil {
				t.Fatal(err)
			}
			c, err := dialSocket(t, r, "")
			if err != nil {
				t.Fatal(err)
			}
			raw := []byte("\n\x02\n\x00\x12\x02\n\x00") // a body and what it is authorized by
			hash := fmt.Sprintf("%X", sha256.Sum256(raw))
			c.say(`{"id":1,"method":"subscribe","params":{"query":"tm.event='Tx' AND tx.hash='%s'"}}`, hash)
			c.hear()
			c.say(`{"id":2,"method":"broadcast_tx_sync","params":{"tx":"%s"}}`, base64.StdEncoding.EncodeToString(raw))
			if got := c.hear(); !strings.Contains(got, `"code":0`) {
				t.Fatal(got)
			}
			d.Advance(1)
			height := gjson.Get(c.hear(), "result.data.value.TxResult.height").String()

			post := func(method, params string) string {
				return r.do(http.MethodPost, "http://"+r.RPCAddr(), `{"id":1,"method":"`+method+`","params":`+params+`}`).body
			}
			request := func(number protowire.Number, text string) []byte {
				return protowire.AppendString(protowire.AppendTag(nil, number, protowire.BytesType), text)
			}
			const service = "/cosmos.tx.v1beta1.Service/"
			byHash, byHeight := request(1, hash), request(6, "tx.height="+height)
			value := func(method string, message []byte) string {
				answer := post("abci_query", fmt.Sprintf(`{"path":"%s","data":"%x"}`, service+method, message))
				text, _ := base64.StdEncoding.DecodeString(gjson.Get(answer, "result.response.value").String())
				return string(text)
			}
			web := func(method string, message []byte) string {
				framed := append([]byte{0, 0, 0, 0, byte(len(message))}, message...)
				return r.do(http.MethodPost, r.base+service+method, string(framed), "Content-Type", "application/grpc-web+proto").body
			}
			const rest = "/cosmos/tx/v1beta1/txs"
			bytes64 := base64.StdEncoding.EncodeToString
			digest, _ := hex.DecodeString(hash)
			for _, by := range []struct{ name, got, want string }{
				{"tx", post("tx", `{"hash":"`+bytes64(digest)+`"}`), `"result":{"hash":"` + hash + `","height":"` + height + `","index":1,`},
				{"tx with a proof", post("tx", `{"hash":"`+bytes64(digest)+`","prove":true}`), `"proof":{"total":"2","index":"1",`},
				{"tx by URI", r.get("http://" + r.RPCAddr() + "/tx?hash=0x" + hash).body, `"height":"` + height + `"`},
				{"tx_search by hash", post("tx_search", `{"query":"tx.hash='`+hash+`'"}`), `"total_count":"1"`},
				{"tx_search by height", post("tx_search", `{"query":"tx.height=`+height+`","order_by":"desc"}`), `"result":{"txs":[{"hash":"` + hash},
				{"GetTx", string(r.call(t.Context(), service+"GetTx", byHash)), hash},
				{"GetTx by gRPC-Web", web("GetTx", byHash), hash},
				{"GetTx by abci_query", value("GetTx", byHash), hash},
				{"GetTxsEvent", string(r.call(t.Context(), service+"GetTxsEvent", byHeight)), hash},
				{"GetTxsEvent by abci_query", value("GetTxsEvent", byHeight), hash},
				{"REST", r.get(r.base + rest + "/" + strings.ToLower(hash)).body, `"tx_response":{"height":"` + height + `","txhash":"` + hash + `"`},
				{"REST's search", r.get(r.base + rest + "?query=tx.height=" + height).body, `"txhash":"` + hash + `"`},
			} {
				if !strings.Contains(by.got, by.want) {
					t.Errorf("%s: %.300q has no %s", by.name, by.got, by.want)
				}
			}
		})
	}
}
