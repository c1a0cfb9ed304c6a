package rpc

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/tipcache/tipcache/proxy/unindexed"
	"github.com/tipcache/tipcache/upstream/events"
	"github.com/tipcache/tipcache/upstream/node"
)

// known are transactions that nodes do not find.
type known []*events.Transaction

func (x known) Unindexed(hash [sha256.Size]byte) *events.Transaction {
	for _, tx := range x {
		if tx.Hash == hash {
			return tx
		}
	}
	return nil
}

func (x known) UnindexedAt(height int64) (all []*events.Transaction) {
	for _, tx := range x {
		if tx.Height == height {
			all = append(all, tx)
		}
	}
	return all
}

func TestATransactionThatANodeDoesNotFindIsThatOfItsBlock(t *testing.T) {
	lost := sha256.Sum256([]byte("lost"))
	d := &Handler{}
	d.o.State.Unindexed = new(unindexed.Txs)
	d.o.State.Unindexed.Set(known{{Hash: lost, Bytes: []byte("lost"), Height: 5, Block: [][sha256.Size]byte{lost}, Result: json.RawMessage(`{"code":0}`)}})
	it := fmt.Sprintf(`{"hash":"%X","height":"5","index":0,"tx_result":{"code":0},"tx":"bG9zdA=="}`, lost)
	leaf := sha256.Sum256(append([]byte{0}, lost[:]...))
	proven := it[:len(it)-1] + fmt.Sprintf(`,"proof":{"root_hash":"%X","data":"bG9zdA==","proof":{"total":"1","index":"0","leaf_hash":"%s","aunts":[]}}}`, leaf, base64.StdEncoding.EncodeToString(leaf[:]))
	const pages = `"error":{"code":-32603,"message":"Internal error","data":"page should be within [1, 1] range, given 2"}`
	hash := base64.StdEncoding.EncodeToString(lost[:])
	const refusal, none = `"error":{"code":-32603,"message":"Internal error","data":"tx (AB) not found"}`, `"result":{"txs":[],"total_count":"0"}`
	for _, tt := range []struct{ name, method, params, said, want string }{ // said "": no node can be asked
		{"by its hash", "tx", `{"hash":"` + hash + `"}`, refusal, `"result":` + it},
		{"with a proof", "tx", `{"hash":"` + hash + `","prove":true}`, refusal, `"result":` + proven},
		{"another one", "tx", `{"hash":"` + base64.StdEncoding.EncodeToString(make([]byte, 32)) + `"}`, refusal, refusal},
		{"no hash", "tx", `{"hash":"AA=="}`, refusal, refusal},
		{"one that the node has", "tx", `{"hash":"` + hash + `"}`, `"result":{"hash":"node"}`, `"result":{"hash":"node"}`},
		{"by a search", "tx_search", fmt.Sprintf(`{"query":"tx.hash='%x'"}`, lost), none, `"result":{"txs":[` + it + `],"total_count":"1"}`},
		{"by its hash, of no node", "tx", `{"hash":"` + hash + `"}`, "", `"result":` + it},
		{"by a search, of no node", "tx_search", fmt.Sprintf(`{"query":"tx.hash='%x'"}`, lost), "", `"result":{"txs":[` + it + `],"total_count":"1"}`},
		{"another one, of no node", "tx", `{"hash":"` + base64.StdEncoding.EncodeToString(make([]byte, 32)) + `"}`, "", ""},
		{"by the height of its block", "tx_search", `{"query":"tx.height = 5","order_by":"desc"}`, none, `"result":{"txs":[` + it + `],"total_count":"1"}`},
		{"of another block", "tx_search", `{"query":"tx.height=6"}`, none, none},
		{"on a page that it is not on", "tx_search", `{"query":"tx.height=5","page":"2"}`, pages, pages},
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
		case refusal, pages:
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
