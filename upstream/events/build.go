package events

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strconv"
)

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

// newBlock is the value of NewBlock. What is empty is left out, but for the list of
// validators, which is never null.
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
	result, members := m.results[i], object(nil)
	m.err = cmp.Or(m.err, err, json.Unmarshal(result, &members))
	height, happenings := strconv.FormatInt(m.Height, 10), members.get("events")

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

// UnmarshalJSON implements json.Unmarshaler.
func (o *object) UnmarshalJSON(data []byte) error {
	d := json.NewDecoder(bytes.NewReader(data))
	if start, err := d.Token(); err != nil || start != json.Delim('{') {
		return cmp.Or(err, fmt.Errorf("%v is no object", start))
	}
	for d.More() {
		name, err := d.Token()
		m := member{name: fmt.Sprint(name)}
		if err = cmp.Or(err, d.Decode(&m.value)); err != nil {
			return err
		}
		*o = append(*o, m)
	}
	return nil
}

func (o object) get(name string) json.RawMessage {
	for _, m := range o {
		if m.name == name {
			return m.value
		}
	}
	return nil
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
