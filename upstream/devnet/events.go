package devnet

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

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
