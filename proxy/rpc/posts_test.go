package rpc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/rpc"
)

func TestTransactionsAndSimulationsAreSentAtTheRateOfPosts(t *testing.T) {
	for _, call := range []string{
		`{"id":%d,"method":"broadcast_tx_sync","params":{"tx":"AA=="}}`,
		`{"id":%d,"method":"broadcast_tx_commit","params":{"tx":"AA=="}}`,
		`{"id":%d,"method":"check_tx","params":{"tx":"AA=="}}`,
		`{"id":%d,"method":"abci_query","params":{"path":"/cosmos.tx.v1beta1.Service/Simulate","data":"0a00"}}`,
		`{"id":%d,"method":"abci_query","params":{"path":"/app/simulate","data":"0a00"}}`,
		`{"id":%d,"method":"abci_query","params":{"path":"app/simulate/","data":"0a00"}}`,
	} {
		t.Run(call, func(t *testing.T) {
			n := newRecordedNode(t)
			n.learnParams()
			server, _ := newHandler(t, n, rpc.Options{Posting: blocks.NewPosting(blocks.Posts{Rate: 0.001, Burst: 2})})
			method := gjson.Get(fmt.Sprintf(call, 0), "method").String()
			for id := range 4 {
				_, body := post(t, server.URL, fmt.Sprintf(call, id))
				if refused := strings.Contains(body, "too many transactions are sent through this server at present"); refused != (id >= 2) {
					t.Errorf("post %d: %s; want it refused: %t", id, body, id >= 2)
				}
			}
			if sent := n.times(method); sent != 2 {
				t.Errorf("%d posts reached the node, want 2", sent)
			}
			if _, body := post(t, server.URL, fmt.Sprintf(balance[0], "5")); !strings.Contains(body, `"result"`) {
				t.Errorf("a read is answered %s", body)
			}
		})
	}
}
