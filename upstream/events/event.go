package events

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"

	"github.com/tidwall/gjson"
	"golang.org/x/crypto/ripemd160" //nolint:staticcheck // CometBFT names validators by it

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
		tags, _ := json.Marshal(e.Tags) // texts always encode
		e.data = fmt.Appendf(nil, `"data":{"type":%q,"value":%s},"events":%s}}`, cmp.Or(e.kind, "tendermint/event/"+e.Kind), e.value, tags)
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
	events []*Event
	err    error
}

// events are those of a block in the order of publishing.
func (b *Block) events() ([]*Event, error) {
	m := &builder{Block: b}
	m.add(NewBlock, b.outcome.Events, b.newBlock())
	m.add(NewBlockHeader, nil, fmt.Appendf(nil, `{"header":%s}`, b.parts.Header))
	m.add(NewBlockEvents, b.outcome.Events, fmt.Appendf(nil, `{"height":"%d","events":%s,"num_txs":"%d"}`, b.Height, orNull(b.outcome.Events), len(b.results)))
	for _, e := range b.parts.Evidence.Evidence {
		m.add(NewEvidence, nil, fmt.Appendf(nil, `{"height":"%d","evidence":%s}`, b.Height, e))
	}
	for i := range b.results {
		m.addTx(i)
	}
	if len(b.updates) > 0 {
		m.add(ValidatorSetUpdates, nil, m.validators())
	}
	return m.events, m.err
}

// add adds an event, unless one before it failed.
func (m *builder) add(kind string, happenings, value []byte) *Event {
	tags, err := tagsOf(kind, happenings)
	e := &Event{Kind: kind, Height: m.Height, Tags: tags, value: value}
	m.err = cmp.Or(m.err, err)
	m.events = append(m.events, e)
	return e
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
	m.err = cmp.Or(m.err, err)
	result.ForEach(func(name, value gjson.Result) bool {
		members = append(members, member{name.Str, json.RawMessage(value.Raw)})
		return true
	})
	height, happenings := strconv.FormatInt(m.Height, 10), []byte(result.Get("events").Raw)

	value := fmt.Appendf(nil, `{"TxResult":{"height":"%s",`, height)
	if i > 0 {
		value = fmt.Appendf(value, `"index":%d,`, i)
	}
	value = fmt.Appendf(value, `"tx":"%s","result":`, m.parts.Data.Txs[i])
	e := m.add(Tx, happenings, append(members.append(value, ""), "}}"...))
	if m.err == nil {
		e.Tags["tx.hash"] = append(e.Tags["tx.hash"], fmt.Sprintf("%X", sha256.Sum256(raw)))
		e.Tags["tx.height"] = append(e.Tags["tx.height"], height)
	}
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
	name  string
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

// A validatorUpdate is a validator with another voting power, as block_results has it.
type validatorUpdate struct {
	Key struct {
		Sum struct {
			Type  string          `json:"type"`
			Value json.RawMessage `json:"value"`
		} `json:"Sum"`
	} `json:"pub_key"`
	Power string `json:"power"` // absent: removed
}

// keyKinds are the kinds of a validator's key: the type in events, and how the address is made.
var keyKinds = map[string]struct {
	name    string
	address func(key []byte) []byte
}{
	"tendermint.crypto.PublicKey_Ed25519": {"tendermint/PubKeyEd25519", func(key []byte) []byte {
		sum := sha256.Sum256(key)
		return sum[:20]
	}},
	"tendermint.crypto.PublicKey_Secp256K1": {"tendermint/PubKeySecp256k1", func(key []byte) []byte {
		sum, of := sha256.Sum256(key), ripemd160.New()
		of.Write(sum[:])
		return of.Sum(nil)
	}},
}

// validators is the value of ValidatorSetUpdates.
func (m *builder) validators() []byte {
	value := []byte(`{"validator_updates":[`)
	for i, u := range m.updates {
		if i > 0 {
			value = append(value, ',')
		}
		kind, known := keyKinds[u.Key.Sum.Type]
		var keys map[string][]byte
		if err := json.Unmarshal(u.Key.Sum.Value, &keys); err != nil || !known || len(keys) != 1 {
			m.err = fmt.Errorf("block %d: a validator's key of type %q is not understood", m.Height, u.Key.Sum.Type)
			return nil
		}
		if u.Power == "" {
			u.Power = "0"
		}
		for _, key := range keys {
			text, _ := json.Marshal(key) // bytes always encode
			value = fmt.Appendf(value, `{"address":"%X","pub_key":{"type":"%s","value":%s},"voting_power":"%s","proposer_priority":"0"}`, kind.address(key), kind.name, text, u.Power)
		}
	}
	return append(value, "]}"...)
}
