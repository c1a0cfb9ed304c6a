package events

import (
	"cmp"
	"encoding/json"
	"fmt"
	"sync"

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
