package events

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/events/query"
)

// The kinds of events that are promised for every block, in the order in which they are
// published; there are as many Tx as transactions and as many NewEvidence as evidence.
const (
	NewBlock            = "NewBlock"
	NewBlockHeader      = "NewBlockHeader"
	NewBlockEvents      = "NewBlockEvents"
	NewEvidence         = "NewEvidence"
	Tx                  = "Tx"
	ValidatorSetUpdates = "ValidatorSetUpdates"
)

// kindTag is the tag with the kind of an event.
const kindTag = "tm.event"

// An Event is what happened, as all subscribers are told of it. It does not change.
type Event struct {
	Kind   string
	Height int64      // of the block that it is promised for; 0 for votes and rounds, which pass as they come
	Tags   query.Tags // what queries judge it by

	kind  string          // data.type; "" for that of Kind
	value []byte          // JSON of data.value
	found <-chan struct{} // closed when the transaction can be found; nil: it need not be

	once sync.Once
	data []byte
}

// Data is the end of every message that tells of the event, from the members data and events of the
// result on. What stands before it is the subscriber's own. It is made once.
func (e *Event) Data() []byte {
	e.once.Do(func() {
		kind, _ := json.Marshal(cmp.Or(e.kind, "tendermint/event/"+e.Kind)) // texts always encode
		tags, _ := json.Marshal(e.Tags)
		e.data = fmt.Appendf(nil, `"data":{"type":%s,"value":%s},"events":%s}}`, kind, orNull(e.value), tags)
	})
	return e.data
}

// tagsOf are the tags of an event of a kind, and of what the application says of it.
func tagsOf(kind string, happenings json.RawMessage) (query.Tags, error) {
	var all []struct {
		Type       string                        `json:"type"`
		Attributes []struct{ Key, Value string } `json:"attributes"`
	}
	tags := query.Tags{}
	if err := decode(happenings, &all); err != nil {
		return nil, err
	}
	for _, h := range all {
		for _, a := range h.Attributes {
			if name := h.Type + "." + a.Key; h.Type != "" && a.Key != "" {
				tags[name] = append(tags[name], a.Value)
			}
		}
	}
	tags[kindTag] = append(tags[kindTag], kind)
	return tags, nil
}

// A builder collects the events of a block.
type builder struct {
	*Block
	events  []*Event
	leftOut []leftOut
}

// A leftOut is an event that cannot be built, and why.
type leftOut struct {
	kind string
	err  error
}

// events returns the events of a block in the order of publishing, and the events that cannot be built.
func (b *Block) events() ([]*Event, []leftOut) {
	m := &builder{Block: b}
	m.add(NewBlock, b.outcome.Events, b.newBlock(), nil)
	m.add(NewBlockHeader, nil, fmt.Appendf(nil, `{"header":%s}`, b.parts.Header), nil)
	m.add(NewBlockEvents, b.outcome.Events, fmt.Appendf(nil, `{"height":"%d","events":%s,"num_txs":"%d"}`, b.Height, orNull(b.outcome.Events), len(b.results)), nil)
	for _, e := range b.parts.Evidence.Evidence {
		m.add(NewEvidence, nil, fmt.Appendf(nil, `{"height":"%d","evidence":%s}`, b.Height, e), nil)
	}
	for i := range b.results {
		m.addTx(i)
	}
	if !isEmpty(b.outcome.Updates) {
		value, err := validatorSetUpdates(b.outcome.Updates)
		m.add(ValidatorSetUpdates, nil, value, err)
	}
	return m.events, m.leftOut
}

// add adds an event, or notes that it cannot be built: err is why its value cannot.
func (m *builder) add(kind string, happenings, value []byte, err error) (tags query.Tags) {
	if err == nil {
		tags, err = tagsOf(kind, happenings)
	}
	if err != nil {
		m.leftOut = append(m.leftOut, leftOut{kind, err})
		return query.Tags{}
	}
	m.events = append(m.events, &Event{Kind: kind, Height: m.Height, Tags: tags, value: value})
	return tags
}

// newBlock is the value of NewBlock, without what is empty, but for the list of validators.
func (b *Block) newBlock() []byte {
	o := b.outcome
	if isEmpty(o.Updates) {
		o.Updates = json.RawMessage("[]")
	}
	result := object{
		{"events", o.Events}, {"tx_results", o.TxResults}, {"validator_updates", o.Updates},
		{"consensus_param_updates", o.Params}, {"app_hash", o.AppHash},
	}
	value := fmt.Appendf(nil, `{"block":%s,"block_id":%s,"result_finalize_block":`, b.block.Block, b.block.ID)
	return append(result.append(value, "validator_updates"), '}')
}

// addTx adds the event of a transaction.
func (m *builder) addTx(i int) {
	raw, err := base64.StdEncoding.DecodeString(m.parts.Data.Txs[i])
	result, members := gjson.ParseBytes(m.results[i]), object(nil)
	if err == nil && !result.IsObject() {
		err = fmt.Errorf("the result of transaction %d is no object", i)
	}
	result.ForEach(func(name, value gjson.Result) bool {
		members = append(members, member{strings.Trim(name.Raw, `"`), json.RawMessage(value.Raw)})
		return true
	})
	height, happenings := strconv.FormatInt(m.Height, 10), []byte(result.Get("events").Raw)

	value := fmt.Appendf(nil, `{"TxResult":{"height":"%s",`, height)
	if i > 0 {
		value = fmt.Appendf(value, `"index":%d,`, i)
	}
	value = fmt.Appendf(value, `"tx":"%s","result":`, m.parts.Data.Txs[i])
	tags := m.add(Tx, happenings, append(members.append(value, ""), "}}"...), err)
	tags["tx.hash"] = append(tags["tx.hash"], fmt.Sprintf("%X", sha256.Sum256(raw)))
	tags["tx.height"] = append(tags["tx.height"], height)
}

func orNull(member json.RawMessage) []byte {
	if len(member) == 0 {
		return []byte("null")
	}
	return member
}

// isEmpty says whether encoders that leave empty members out leave one out.
func isEmpty(member json.RawMessage) bool {
	switch string(bytes.TrimSpace(member)) {
	case "", "null", "[]", `""`, "0", `"0"`, "false":
		return true
	}
	return false
}

// An object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string // as JSON writes it, without the quotes
	value json.RawMessage
}

// append writes the object without its empty members, but for one that is kept.
func (o object) append(to []byte, kept string) []byte {
	to = append(to, '{')
	first := len(to)
	for _, m := range o {
		if m.name != kept && isEmpty(m.value) {
			continue
		}
		if len(to) > first {
			to = append(to, ',')
		}
		to = fmt.Appendf(to, `"%s":%s`, m.name, m.value)
	}
	return append(to, '}')
}
