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

	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/events/query"
)

// The kinds of block events, in publishing order. A block has one Tx event per transaction and one
// NewEvidence event per piece of evidence.
const (
	NewBlock            = "NewBlock"
	NewBlockHeader      = "NewBlockHeader"
	NewBlockEvents      = "NewBlockEvents"
	NewEvidence         = "NewEvidence"
	Tx                  = "Tx"
	ValidatorSetUpdates = "ValidatorSetUpdates"
)

// kindTag is the tag that holds an event's kind.
const kindTag = "tm.event"

// An Event is an event as subscribers receive it. It is immutable.
type Event struct {
	Kind   string
	Height int64      // of its block; 0 for a consensus event
	Epoch  int64      // of its block, as in tip.Tip
	Tags   query.Tags // matched by the queries

	dataType string          // "" derives it from Kind
	value    []byte          // JSON of data.value
	found    <-chan struct{} // closed when nodes find the transaction; nil for other kinds

	once sync.Once
	data []byte

	weight  int // memory of an unread event, in bytes
	mu      sync.Mutex
	holders int
	held    *account.Hold
}

// Memory in bytes.
const (
	eventWeight   = 512 // an event in addition to its texts
	messageWeight = 128 // a message in a queue
)

// hold reserves a message, and the event's memory once for all holders. It returns false if there is no room.
func (e *Event) hold(memory *account.Part) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	bytes := messageWeight
	if e.holders == 0 {
		e.held = memory.Open("", true)
		bytes += e.weight
	}
	if e.held.Take(bytes) != nil {
		return false
	}
	e.holders++
	return true
}

// release undoes hold.
func (e *Event) release() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.holders--; e.holders == 0 {
		e.held.Close()
	} else {
		e.held.Release(messageWeight)
	}
}

// Data returns the part of a message that is the same for all subscribers: from the result's member data to the end.
// It is encoded once.
func (e *Event) Data() []byte {
	e.once.Do(func() {
		dataType, _ := json.Marshal(cmp.Or(e.dataType, "tendermint/event/"+e.Kind)) // strings always encode
		tags, _ := json.Marshal(e.Tags)
		e.data = fmt.Appendf(nil, `"data":{"type":%s,"value":%s},"events":%s}}`, dataType, orNull(e.value), tags)
		e.value = nil
	})
	return e.data
}

// tagsOf returns the tags of an event of a kind, from the application's events.
func tagsOf(kind string, appEvents json.RawMessage) (query.Tags, error) {
	var all []struct {
		Type       string                        `json:"type"`
		Attributes []struct{ Key, Value string } `json:"attributes"`
	}
	tags := query.Tags{}
	if err := decode(appEvents, &all); err != nil {
		return nil, err
	}
	for _, e := range all {
		for _, a := range e.Attributes {
			if name := e.Type + "." + a.Key; e.Type != "" && a.Key != "" {
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
	events   []*Event
	failures []buildFailure
}

// A buildFailure is the reason why an event of a kind cannot be built.
type buildFailure struct {
	kind string
	err  error
}

// events returns the events of a block in publishing order, and why others cannot be built.
func (b *Block) events() ([]*Event, []buildFailure) {
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
	return m.events, m.failures
}

// add adds an event, or records why it cannot be built. A non-nil err says why it has no value.
func (m *builder) add(kind string, appEvents, value []byte, err error) (tags query.Tags) {
	if err == nil {
		tags, err = tagsOf(kind, appEvents)
	}
	if err != nil {
		m.failures = append(m.failures, buildFailure{kind, err})
		return query.Tags{}
	}
	m.events = append(m.events, &Event{Kind: kind, Height: m.Height, Tags: tags, value: value})
	return tags
}

// newBlock returns the value of NewBlock. It omits empty members except the list of validators.
func (b *Block) newBlock() []byte {
	o := b.outcome
	if isEmpty(o.Updates) {
		o.Updates = json.RawMessage("[]")
	}
	value := fmt.Appendf(nil, `{"block":%s,"block_id":%s,"result_finalize_block":{`, b.block.Block, b.block.ID)
	value = appendNonEmpty(value, "events", o.Events)
	value = appendNonEmpty(value, "tx_results", o.TxResults)
	value = appendMember(value, "validator_updates", o.Updates)
	value = appendNonEmpty(value, "consensus_param_updates", o.Params)
	value = appendNonEmpty(value, "app_hash", o.AppHash)
	return append(value, "}}"...)
}

func (m *builder) addTx(i int) {
	raw, err := base64.StdEncoding.DecodeString(m.parts.Data.Txs[i])
	result := gjson.ParseBytes(m.results[i])
	if err == nil && !result.IsObject() {
		err = fmt.Errorf("result of transaction %d is not an object", i)
	}
	height := strconv.FormatInt(m.Height, 10)
	value := fmt.Appendf(nil, `{"TxResult":{"height":"%s",`, height)
	if i > 0 {
		value = fmt.Appendf(value, `"index":%d,`, i)
	}
	value = fmt.Appendf(value, `"tx":"%s","result":{`, base64.StdEncoding.EncodeToString(raw)) // the node's text may have line breaks
	result.ForEach(func(name, member gjson.Result) bool {
		value = appendNonEmpty(value, strings.TrimSuffix(strings.TrimPrefix(name.Raw, `"`), `"`), json.RawMessage(member.Raw))
		return true
	})
	tags := m.add(Tx, []byte(result.Get("events").Raw), append(value, "}}}"...), err)
	tags["tx.hash"] = append(tags["tx.hash"], fmt.Sprintf("%X", sha256.Sum256(raw)))
	tags["tx.height"] = append(tags["tx.height"], height)
}

func orNull(member json.RawMessage) []byte {
	if len(member) == 0 {
		return []byte("null")
	}
	return member
}

// isEmpty reports whether the node's encoder omits a member with this value.
func isEmpty(member json.RawMessage) bool {
	switch string(bytes.TrimSpace(member)) {
	case "", "null", "[]", `""`, "0", `"0"`, "false":
		return true
	}
	return false
}

// appendMember appends a member to an unfinished JSON object, without its closing brace. name is encoded, without quotes.
func appendMember(object []byte, name string, value json.RawMessage) []byte {
	if object[len(object)-1] != '{' {
		object = append(object, ',')
	}
	return fmt.Appendf(object, `"%s":%s`, name, value)
}

// appendNonEmpty is appendMember, but omits an empty value.
func appendNonEmpty(object []byte, name string, value json.RawMessage) []byte {
	if isEmpty(value) {
		return object
	}
	return appendMember(object, name, value)
}
