package devnet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// transactions are the block's own one, and in the dialect of the SDK the transactions that were
// broadcast.
func (c *chain) transactions(h int64) []cosmos.Transaction {
	all := []cosmos.Transaction{{Raw: c.transaction(h), Result: `{"code":0,"data":null,"log":"","info":"","gas_wanted":"0","gas_used":"0","events":[],"codespace":""}`}}
	if c.cosmos != nil {
		all = append(all, c.cosmos.Transactions(h)...)
	}
	return all
}

// joined lists something of each.
func joined[T any](all []T, of func(T) string) string {
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = of(all[i])
	}
	return strings.Join(texts, ",")
}

func result(t cosmos.Transaction) string { return t.Result }

// finalized are the application's events of a block.
func (c *chain) finalized(h int64) string {
	return fmt.Sprintf(`[{"type":"mint","attributes":[{"key":"amount","value":"%d","index":true},{"key":"mode","value":"BeginBlock","index":true}]}]`, h)
}

// consensusParameters are those of the consensus.
const consensusParameters = `{"block":{"max_bytes":"22020096","max_gas":"-1"},"evidence":{"max_age_num_blocks":"100000","max_age_duration":"172800000000000","max_bytes":"1048576"},"validator":{"pub_key_types":["ed25519"]},"version":{},"abci":{}}`

// blockResults are what running a block came to.
func (c *chain) blockResults(h int64) []byte {
	return fmt.Appendf(nil, `{"height":"%d","txs_results":[%s],"finalize_block_events":%s,"validator_updates":null,"consensus_param_updates":%s,"app_hash":%q}`,
		h, joined(c.transactions(h), result), c.finalized(h), consensusParameters, state.Base64(c.hash("app", h)))
}

// query answers of the state, by the methods of the gRPC services.
func (n *Node) query(p cometParams) (json.RawMessage, *rpcError) {
	data, err := hex.DecodeString(p.Data)
	switch {
	case err != nil:
		return nil, badParams("json", err.Error())
	case n.chain.cosmos == nil:
		return nil, &rpcError{Code: -32601, Message: "Method not found"}
	}
	if p.Height == nil {
		p.height = 0 // the newest
	}
	a := n.chain.cosmos.Query(view{n}, p.Path, data, p.height)
	n.asked.count(Asked{URI: "abci_query " + p.Path + "?" + p.Data, Height: a.Height})
	value := []byte("null")
	if a.Value != nil {
		value = encode(a.Value)
	}
	return fmt.Appendf(nil, `{"response":{"code":%d,"log":%s,"info":"","index":"0","key":null,"value":%s,"proofOps":null,"height":"%d","codespace":%q}}`,
		a.Code, encode(a.Log), value, a.Height, a.Codespace), nil
}

// indexedBlocks is for how many blocks transactions can be found by the method tx.
const indexedBlocks = 256

// tx is a transaction by its hash.
func (n *Node) tx(p cometParams) (json.RawMessage, *rpcError) {
	if n.chain.cosmos == nil {
		return nil, internalError("transaction indexing is disabled")
	}
	if found := n.find(p.Hash); found != nil {
		return found, nil
	}
	return nil, internalError(fmt.Sprintf("tx (%X) not found", p.Hash))
}

func (n *Node) find(wanted []byte) json.RawMessage {
	if n.comet.fault.Load().Unindexed {
		return nil
	}
	for h := n.Height(); h > max(0, n.Height()-indexedBlocks); h-- {
		for i, t := range n.chain.transactions(h) {
			if hash := sha256.Sum256(t.Raw); string(wanted) == string(hash[:]) {
				return fmt.Appendf(nil, `{"hash":"%X","height":"%d","index":%d,"tx_result":%s,"tx":%q}`, hash, h, i, t.Result, state.Base64(t.Raw))
			}
		}
	}
	return nil
}

// searchedHash is the one search that is understood.
var searchedHash = regexp.MustCompile(`^tx\.hash\s*=\s*'([0-9A-Fa-f]{64})'$`)

func (n *Node) searchTxs(p cometParams) (json.RawMessage, *rpcError) {
	if m := searchedHash.FindStringSubmatch(p.Query); m != nil {
		hash, _ := hex.DecodeString(m[1]) // it has its form
		if found := n.find(hash); found != nil {
			return fmt.Appendf(nil, `{"txs":[%s],"total_count":"1"}`, found), nil
		}
	}
	return json.RawMessage(`{"txs":[],"total_count":"0"}`), nil
}

func (n *Node) broadcastTx(p cometParams) (json.RawMessage, *rpcError) {
	if n.chain.cosmos == nil {
		return nil, &rpcError{Code: -32601, Message: "Method not found"}
	}
	result, known := n.chain.cosmos.Broadcast(view{n}, p.Tx)
	if known {
		return nil, internalError("tx already exists in cache")
	}
	return json.RawMessage(result), nil
}

// eventQuery is what can be subscribed to: a kind of events, of transactions perhaps one,
// or all.
var eventQuery = regexp.MustCompile(`^\s*tm\.event\s*(?:=\s*'(\w+)'|EXISTS)(?:\s+AND\s+tx\.hash\s*=\s*'(\w+)')?\s*$`)

// An event is one of a block, as subscribers are told of it.
type event struct {
	kind, of, value string // of is the end of data.type
	tags            map[string][]string
}

// matches says whether a subscription wants it.
func (e event) matches(query string) bool {
	parts := eventQuery.FindStringSubmatch(query)
	return parts != nil && (parts[1] == "" || parts[1] == e.kind) && (parts[2] == "" || len(e.tags["tx.hash"]) > 0 && parts[2] == e.tags["tx.hash"][0])
}

// result is the result in a message about it.
func (e event) result(query string) json.RawMessage {
	return fmt.Appendf(nil, `{"query":%s,"data":{"type":"tendermint/event/%s","value":%s},"events":%s}`, encode(query), e.of, e.value, encode(e.tags))
}

// add adds the tags of what the application says.
func (e event) add(happenings string) event {
	var all []struct {
		Type       string
		Attributes []struct{ Key, Value string }
	}
	_ = json.Unmarshal([]byte(happenings), &all) // it is our own
	for _, h := range all {
		for _, a := range h.Attributes {
			e.tags[h.Type+"."+a.Key] = append(e.tags[h.Type+"."+a.Key], a.Value)
		}
	}
	return e
}

func newEvent(kind, value string) event {
	return event{kind, kind, value, map[string][]string{"tm.event": {kind}}}
}

// eventsOf are those of a block in the order of publishing. The last one begins the next
// block.
func (c *chain) eventsOf(h int64) []event {
	txs, finalized := c.transactions(h), c.finalized(h)
	outcome := fmt.Sprintf(`{"events":%s,"tx_results":[%s],"validator_updates":[],"consensus_param_updates":%s,"app_hash":%q}`,
		finalized, joined(txs, result), consensusParameters, state.Base64(c.hash("app", h)))
	all := []event{
		newEvent("NewBlock", fmt.Sprintf(`{"block":%s,"block_id":%s,"result_finalize_block":%s}`, c.block(h), c.blockID(h), outcome)).add(finalized),
		newEvent("NewBlockHeader", fmt.Sprintf(`{"header":%s}`, c.header(h))),
		newEvent("NewBlockEvents", fmt.Sprintf(`{"height":"%d","events":%s,"num_txs":"%d"}`, h, finalized, len(txs))).add(finalized),
	}
	for i, t := range txs {
		index := ""
		if i > 0 {
			index = fmt.Sprintf(`"index":%d,`, i)
		}
		result := leaveOut.Replace(t.Result)
		var of struct{ Events json.RawMessage }
		_ = json.Unmarshal([]byte(t.Result), &of) // it is our own
		e := newEvent("Tx", fmt.Sprintf(`{"TxResult":{"height":"%d",%s"tx":%q,"result":%s}}`, h, index, state.Base64(t.Raw), result)).add(string(of.Events))
		e.tags["tx.hash"] = []string{fmt.Sprintf("%X", sha256.Sum256(t.Raw))}
		e.tags["tx.height"] = []string{fmt.Sprint(h)}
		all = append(all, e)
	}
	next := newEvent("NewRoundStep", fmt.Sprintf(`{"height":"%d","round":0,"step":"RoundStepNewHeight"}`, h+1))
	next.of = "RoundState"
	return append(all, next)
}

// leaveOut takes away what is empty in the result of a transaction.
var leaveOut = strings.NewReplacer(`"code":0,"data":null,"log":"","info":"",`, "", `"gas_wanted":"0","gas_used":"0","events":[],"codespace":""`, "", `,"codespace":""`, "")
