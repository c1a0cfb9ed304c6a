package unindexed

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/events"
	"github.com/tipcache/tipcache/upstream/node/nodetest"
)

// The exchanges are those with a real node, of wasmd v0.61.14.
type exchange struct {
	Name, Message string
	Answer        string   // of the RPC
	Messages      []string // of gRPC
}

func recorded(t *testing.T, file, name string) exchange {
	t.Helper()
	all := nodetest.Recorded[exchange](t, file)
	i := slices.IndexFunc(all, func(x exchange) bool { return x.Name == name })
	if i < 0 {
		t.Fatalf("%s is not in %s", name, file)
	}
	return all[i]
}

func resultOf(t *testing.T, name string) string {
	t.Helper()
	return gjson.Get(recorded(t, "../rpc/testdata/exchanges.jsonl", name).Answer, "result").Raw
}

// An index has the transactions of one block.
type index []*events.Transaction

func (x index) Unindexed(hash [sha256.Size]byte) *events.Transaction {
	for _, tx := range x {
		if tx.Hash == hash {
			return tx
		}
	}
	return nil
}

func (x index) UnindexedAt(height int64) []*events.Transaction {
	if len(x) > 0 && x[0].Height == height {
		return x
	}
	return nil
}

// known is the transaction of block 14, alone in it.
func known(t *testing.T) (*events.Transaction, *Txs) {
	r := gjson.Parse(resultOf(t, "post_tx"))
	raw, err := base64.StdEncoding.DecodeString(r.Get("tx").String())
	if err != nil {
		t.Fatal(err)
	}
	hash := sha256.Sum256(raw)
	tx := &events.Transaction{
		Hash: hash, Bytes: raw, Height: 14, Block: [][sha256.Size]byte{hash}, Result: json.RawMessage(r.Get("tx_result").Raw),
		Time: time.Date(2026, 11, 22, 13, 1, 47, 123456789, time.UTC),
	}
	txs := new(Txs)
	txs.Set(index{tx})
	return tx, txs
}

func TestATransactionIsThatOfARealNode(t *testing.T) {
	t.Parallel()
	tx, txs := known(t)
	for name, got := range map[string][]byte{
		"post_tx": Result(tx, false), "post_tx_prove": Result(tx, true), "post_tx_search": SearchResult(txs.Search("tx.height=14"), 1, false),
	} {
		if diff := cmp.Diff(resultOf(t, name), string(got)); diff != "" {
			t.Errorf("%s (-node +here):\n%s", name, diff)
		}
	}
	for name, method := range map[string]string{"grpc_gettx": getTx, "grpc_gettx_lower": getTx, "grpc_gettxs": getTxsEvent} {
		x := recorded(t, "../grpc/testdata/exchanges.jsonl", name)
		request, err := hex.DecodeString(x.Message)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(x.Messages, []string{hex.EncodeToString(txs.Response(method, request))}); diff != "" {
			t.Errorf("%s (-node +here):\n%s", name, diff)
		}
		if Lacks(txs.Response(method, request)) || !Lacks(nil) || !Lacks([]byte{4 << 3, 0}) {
			t.Errorf("%s: it is not seen that the response has a transaction", name)
		}
	}
	if got := txs.Response(getTx, []byte("\n\x02ab")); got != nil {
		t.Errorf("another hash: %x", got)
	}
}

// REST's answers of a real node, made again of what the RPC would have said.
func TestRESTsAnswerIsThatOfARealNode(t *testing.T) {
	t.Parallel()
	seen := 0
	for _, x := range nodetest.Exchanges(t, "../../upstream/devnet/cosmos/testdata/exchanges.jsonl") {
		if !strings.HasPrefix(x.Name, "hash_tx_found_") || x.Trimmed {
			continue
		}
		seen++
		r := gjson.Get(x.Raw, "tx_response")
		data, err := hex.DecodeString(r.Get("data").String())
		hash, err2 := hex.DecodeString(r.Get("txhash").String())
		at, err3 := time.Parse(time.RFC3339, r.Get("timestamp").String())
		if err != nil || err2 != nil || err3 != nil {
			t.Fatal(err, err2, err3)
		}
		result := fmt.Sprintf(`{"code":%s,"data":%q,"log":%s,"info":%s,"gas_wanted":%s,"gas_used":%s,"events":%s,"codespace":%s}`,
			r.Get("code").Raw, base64.StdEncoding.EncodeToString(data), r.Get("raw_log").Raw, r.Get("info").Raw, r.Get("gas_wanted").Raw, r.Get("gas_used").Raw, r.Get("events").Raw, r.Get("codespace").Raw)
		tx := &events.Transaction{Hash: [sha256.Size]byte(hash), Height: r.Get("height").Int(), Time: at, Result: json.RawMessage(result)}
		decoded := gjson.Get(x.Raw, "tx").Raw
		if diff := cmp.Diff(x.Raw, string(JSON(tx, decoded))); diff != "" {
			t.Errorf("%s (-node +here):\n%s", x.Name, diff)
		}
		search := fmt.Sprintf(`{"txs":[%s],"tx_responses":[%s],"pagination":null,"total":"7"}`, decoded, r.Raw)
		if got := string(SearchJSON([]*events.Transaction{tx}, 7, func(*events.Transaction) string { return decoded })); got != search {
			t.Errorf("%s by a search: %s", x.Name, got)
		}
	}
	if seen == 0 {
		t.Error("no transaction was recorded")
	}
}

// The root of a proof is the hash that the header of the block has, and the aunts lead to it.
func TestAProofLeadsToTheHeader(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../upstream/events/testdata/blocks/*.json")
	if err != nil {
		t.Fatal(err)
	}
	most := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		block := gjson.Get(gjson.GetBytes(text, "block").String(), "result.block")
		var leaves [][]byte
		for _, tx := range block.Get("data.txs").Array() {
			raw, _ := base64.StdEncoding.DecodeString(tx.String())
			hash := sha256.Sum256(raw)
			leaves = append(leaves, hashOf(0, hash[:]))
		}
		most = max(most, len(leaves))
		for i := range leaves {
			root, aunts := tree(leaves, i)
			if fmt.Sprintf("%X", root) != block.Get("header.data_hash").String() || !bytes.Equal(climb(leaves[i], i, len(leaves), aunts), root) {
				t.Errorf("%s: transaction %d of %d leads to %X", file, i, len(leaves), root)
			}
		}
	}
	if most < 3 {
		t.Errorf("the blocks have %d transactions at most", most)
	}
}

// climb is the root that a leaf and its aunts come to.
func climb(leaf []byte, place, leaves int, aunts [][]byte) []byte {
	if leaves == 1 {
		return leaf
	}
	split := 1
	for 2*split < leaves {
		split *= 2
	}
	last, rest := aunts[len(aunts)-1], aunts[:len(aunts)-1]
	if place < split {
		return hashOf(1, climb(leaf, place, split, rest), last)
	}
	return hashOf(1, last, climb(leaf, place-split, leaves-split, rest))
}

func TestAPageIsAPartOfThoseThatASearchFinds(t *testing.T) {
	t.Parallel()
	all := make(index, 130)
	for i := range all {
		all[i] = &events.Transaction{Height: 5, Index: i}
	}
	txs := new(Txs)
	txs.Set(all)
	for _, c := range []struct {
		page        Page
		first, many int
	}{
		{Page{Size: 30}, 0, 30}, {Page{Number: 1, Size: 1000}, 0, 100}, {Page{Number: 2, Size: 100}, 100, 30}, {Page{Number: 3, Size: 100}, 0, 0},
		{Page{Size: 2, Descending: true}, 129, 2}, {Page{Number: 1 << 62, Size: 100}, 0, 0}, {Page{}, 0, 0},
	} {
		part, ok := c.page.Of(txs.Search(" tx.height =5 "))
		if ok != (c.many > 0) || len(part) != c.many || ok && part[0].Index != c.first {
			t.Errorf("%+v: %d, %t", c.page, len(part), ok)
		}
	}
	for _, query := range []string{"tx.height=05", "tx.height='5'", "tx.height=5 AND tx.height=5", "tx.height>5", "tx.height=6", "tx.hash='AB'", ""} {
		if got := txs.Search(query); got != nil {
			t.Errorf("%s finds %d", query, len(got))
		}
	}
	for _, none := range []*Txs{nil, new(Txs)} {
		if none.ByHash(make([]byte, sha256.Size)) != nil || none.Search("tx.height=5") != nil {
			t.Error("nothing is known, and something found")
		}
	}
}
