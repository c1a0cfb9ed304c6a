package devnet

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// transactions returns the transactions of a block, in order.
func (c *chain) transactions(h int64) []cosmos.Transaction {
	if c.cosmos != nil {
		return c.cosmos.Transactions(h, c.hash("block", h))
	}
	return []cosmos.Transaction{{Raw: c.payload(h), Result: cosmos.NoEvents}}
}

// query answers abci_query with the methods of the gRPC services.
func (n *Node) query(p cometParams) (json.RawMessage, *rpcError) {
	data, _ := hex.DecodeString(p.Data) // malformed data is an empty message
	if p.Height == nil {
		p.height = 0 // the newest
	}
	read := n.chain.cosmos.Query
	if cosmos.IsStorePath(p.Path) {
		read = n.chain.cosmos.QueryStore
	}
	a := read(n, p.Path, data, p.height)
	n.asked.Count("abci_query "+p.Path+"?"+p.Data, a.Height)
	value := []byte("null")
	if a.Value != nil {
		value = encode(a.Value)
	}
	return n.chain.render("query_result", a.Height, map[string]string{"code": strconv.Itoa(a.Code), "log": string(encode(a.Log)), "value": string(value), "codespace": a.Codespace}), nil
}

// tx answers a query for a transaction by its hash.
func (n *Node) tx(p cometParams) (json.RawMessage, *rpcError) {
	if n.chain.cosmos == nil {
		return nil, internalError("transaction indexing is disabled")
	}
	n.asked.Count(fmt.Sprintf("tx %X", p.Hash), 0)
	if found := n.find(p.Hash); found != nil {
		return found, nil
	}
	return nil, internalError(fmt.Sprintf("tx (%X) not found", p.Hash))
}

// find returns a transaction of the latest blocks by its hash, or nil.
func (n *Node) find(wanted []byte) json.RawMessage {
	for h := n.Height(); h > max(0, n.Height()-256); h-- {
		for i, t := range n.chain.transactions(h) {
			if hash := sha256.Sum256(t.Raw); string(wanted) == string(hash[:]) {
				return n.chain.render("tx_result", h, map[string]string{"hash": fmt.Sprintf("%X", hash), "index": strconv.Itoa(i), "result": t.Result, "tx": state.Base64(t.Raw)})
			}
		}
	}
	return nil
}

// searchTxs supports only a search for a hash.
func (n *Node) searchTxs(p cometParams) (json.RawMessage, *rpcError) {
	hash, _ := hex.DecodeString(strings.Trim(strings.TrimPrefix(p.Query, "tx.hash="), "'")) // any other search finds nothing
	if found := n.find(hash); found != nil {
		return fmt.Appendf(nil, `{"txs":[%s],"total_count":"1"}`, found), nil
	}
	return json.RawMessage(`{"txs":[],"total_count":"0"}`), nil
}

func (n *Node) broadcastTx(p cometParams) (json.RawMessage, *rpcError) {
	hash, a := n.chain.cosmos.Broadcast(n.Height(), p.Tx)
	if a.Code == cosmos.AlreadyKnown {
		return nil, internalError("tx already exists in cache")
	}
	return fmt.Appendf(nil, `{"code":%d,"data":"","log":%q,"codespace":%q,"hash":%q}`, a.Code, a.Log, a.Codespace, hash), nil
}

// eventQuery matches supported subscription queries: a kind of event, a transaction by its hash, or all events.
var eventQuery = regexp.MustCompile(`^\s*tm\.event\s*(?:=\s*'(\w+)'|EXISTS)(?:\s+AND\s+tx\.hash\s*=\s*'(\w+)')?\s*$`)

// An event is one event of a block.
type event struct {
	kind string
	data json.RawMessage
	tags map[string][]string
}

// matches reports whether a subscription's query selects the event.
func (e event) matches(query string) bool {
	parts := eventQuery.FindStringSubmatch(query)
	return parts != nil && (parts[1] == "" || parts[1] == e.kind) && (parts[2] == "" || slices.Contains(e.tags["tx.hash"], parts[2]))
}

// result returns the result of the event's message.
func (e event) result(query string) json.RawMessage {
	return fmt.Appendf(nil, `{"query":%s,"data":%s,"events":%s}`, encode(query), e.data, encode(e.tags))
}

// event returns an event of a kind, with the tags of the application's events.
func (c *chain) event(kind string, h int64, application string, own map[string]string) event {
	tags := map[string][]string{"tm.event": {kind}}
	for _, of := range gjson.Parse(application).Array() {
		for _, a := range of.Get("attributes").Array() {
			name := of.Get("type").String() + "." + a.Get("key").String()
			tags[name] = append(tags[name], a.Get("value").String())
		}
	}
	return event{kind, c.render(kind, h, own), tags}
}

// eventsOf returns the events of a block in the order of publishing. The last one begins the next block.
func (c *chain) eventsOf(h int64) []event {
	txs, finalized := c.transactions(h), string(c.render("finalized", h, nil))
	all := []event{
		c.event("NewBlock", h, finalized, nil), c.event("NewBlockHeader", h, "", nil),
		c.event("NewBlockEvents", h, finalized, map[string]string{"count": strconv.Itoa(len(txs))}),
	}
	for i, t := range txs {
		index := ""
		if i > 0 {
			index = fmt.Sprintf(`"index":%d,`, i)
		}
		e := c.event("Tx", h, gjson.Get(t.Result, "events").Raw, map[string]string{"index": index, "tx": state.Base64(t.Raw), "result": leaveOut.Replace(t.Result)})
		e.tags["tx.hash"], e.tags["tx.height"] = []string{fmt.Sprintf("%X", sha256.Sum256(t.Raw))}, []string{fmt.Sprint(h)}
		all = append(all, e)
	}
	return append(all, c.event("NewRoundStep", h, "", nil))
}

// leaveOut removes empty fields from the result of a transaction.
var leaveOut = strings.NewReplacer(`"code":0,"data":null,"log":"","info":"",`, "", `"gas_wanted":"0","gas_used":"0","events":[],"codespace":""`, "", `,"codespace":""`, "")
