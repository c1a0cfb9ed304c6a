package rpc

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/tipcache/tipcache/upstream/node"
)

func TestATransactionThatANodeDoesNotFindIsThatOfItsBlock(t *testing.T) {
	lost := sha256.Sum256([]byte("lost"))
	d := &Handler{unindexed: func(hash [sha256.Size]byte) json.RawMessage {
		if hash != lost {
			return nil
		}
		return json.RawMessage(`{"hash":"it"}`)
	}}
	hash := base64.StdEncoding.EncodeToString(lost[:])
	const refusal, none = `"error":{"code":-32603,"message":"Internal error","data":"tx (AB) not found"}`, `"result":{"txs":[],"total_count":"0"}`
	for _, tt := range []struct{ name, method, params, said, want string }{ // said "": no node can be asked
		{"by its hash", "tx", `{"hash":"` + hash + `"}`, refusal, `"result":{"hash":"it"}`},
		{"with a proof", "tx", `{"hash":"` + hash + `","prove":true}`, refusal, refusal},
		{"another one", "tx", `{"hash":"` + base64.StdEncoding.EncodeToString(make([]byte, 32)) + `"}`, refusal, refusal},
		{"no hash", "tx", `{"hash":"AA=="}`, refusal, refusal},
		{"one that the node has", "tx", `{"hash":"` + hash + `"}`, `"result":{"hash":"node"}`, `"result":{"hash":"node"}`},
		{"by a search", "tx_search", fmt.Sprintf(`{"query":"tx.hash='%x'"}`, lost), none, `"result":{"txs":[{"hash":"it"}],"total_count":"1"}`},
		{"by its hash, of no node", "tx", `{"hash":"` + hash + `"}`, "", `"result":{"hash":"it"}`},
		{"by a search, of no node", "tx_search", fmt.Sprintf(`{"query":"tx.hash='%x'"}`, lost), "", `"result":{"txs":[{"hash":"it"}],"total_count":"1"}`},
		{"another one, of no node", "tx", `{"hash":"` + base64.StdEncoding.EncodeToString(make([]byte, 32)) + `"}`, "", ""},
		{"by a search for more", "tx_search", fmt.Sprintf(`{"query":"tx.hash='%X' AND tx.height=5"}`, lost), none, none},
	} {
		m := methods[tt.method]
		a, ok := m.read(json.RawMessage(tt.params))
		if !ok {
			t.Fatal(tt.name)
		}
		answer, err := &node.Answer{Body: []byte(tt.said), Reason: node.NotFound}, error(nil)
		switch tt.said {
		case "":
			answer, err = nil, errors.New("away")
		case refusal:
		default:
			answer.Reason = node.OK
		}
		o := &origin{asking: &asking{Handler: d, m: m, a: a}, a: a}
		got, err := o.complete(answer, err)
		if tt.want == "" && err != nil {
			continue
		}
		if err != nil || string(got.Body) != tt.want || got.Body[1] == 'r' && got.Reason != node.OK {
			t.Errorf("%s: %+v, %v", tt.name, got, err)
		}
	}
}
