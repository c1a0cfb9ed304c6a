package socket

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
)

type label struct {
	id   json.RawMessage
	head []byte // of an event message, up to the event's data
}

func isSubscriptionMethod(method string) bool {
	return method == "subscribe" || method == "unsubscribe" || method == "unsubscribe_all"
}

func (c *conn) subscription(r jsonrpc.Call) []byte {
	err := c.changeSubscription(r)
	switch {
	case errors.Is(err, errTooFew):
		return missingParams
	case err != nil:
		return jsonrpc.AppendAnswer(nil, r.ID, jsonrpc.Error(jsonrpc.InternalError, err.Error()))
	}
	return jsonrpc.AppendAnswer(nil, r.ID, []byte(`"result":{}`))
}

// Limits of a subscription, in bytes.
const (
	maxID     = 1 << 10 // each event repeats the id
	maxParams = 64 << 10
)

var (
	errTooFew     = errors.New("no parameters")
	errLongID     = fmt.Errorf("the id of a subscription may have at most %d bytes", maxID)
	errLongParams = errors.New("maximum query length exceeded")
)

func (c *conn) changeSubscription(r jsonrpc.Call) error {
	var names []string
	if r.Method != "unsubscribe_all" {
		names = []string{"query"}
	}
	if r.Params == nil && names != nil {
		return errTooFew
	}
	if len(r.Params) > maxParams {
		return errLongParams
	}
	query, err := parseQuery(r.Params, names)
	switch {
	case err != nil:
		return fmt.Errorf("error converting json params to arguments: %w", err)
	case r.Method == "unsubscribe_all":
		return c.subscriber.UnsubscribeAll()
	case r.Method == "unsubscribe":
		return c.subscriber.Unsubscribe(query)
	}
	if len(r.ID) > maxID {
		return errLongID
	}
	text, _ := json.Marshal(query) // texts always encode
	return c.subscriber.Subscribe(query, label{r.ID, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"query":%s,`, r.ID, text)})
}

func (c *conn) writeEvents() {
	for {
		m, ok := c.subscriber.Next(c.ctx)
		if !ok {
			return
		}
		target := m.Label.(label) //nolint:forcetypeassert // Subscribe is called with no other type
		if m.End != nil {
			c.send(jsonrpc.AppendAnswer(nil, target.id, jsonrpc.Error(jsonrpc.ServerError, "subscription was canceled (reason: "+m.End.Error()+")")))
			continue
		}
		c.eventClient.Announce(m.Event.Epoch, m.Event.Height)
		c.writeFrame(target.head, m.Event.Data())
	}
}

// parseQuery parses the parameter of subscribe and unsubscribe, by name or in a list. names has the names of all parameters of
// the method. Its error is the node's.
func parseQuery(params json.RawMessage, names []string) (query string, err error) {
	if params == nil {
		return "", nil
	}
	var value json.RawMessage
	var members map[string]json.RawMessage
	if json.Unmarshal(params, &members) == nil {
		value = members["query"]
	} else {
		var list []json.RawMessage
		switch err = json.Unmarshal(params, &list); {
		case err != nil:
			return "", fmt.Errorf("unknown type for JSON params: %w. Expected map or array", err)
		case len(list) != len(names):
			return "", fmt.Errorf("expected %d parameters (%v), got %d (%v)", len(names), names, len(list), list)
		case len(list) > 0:
			value = list[0]
		}
	}
	if value != nil && names != nil {
		err = json.Unmarshal(value, &query)
	}
	return query, err
}
