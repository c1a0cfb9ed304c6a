package socket

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
)

// A label is what stands before the events of a subscription.
type label struct {
	id   json.RawMessage
	head []byte // up to the data of the event
}

// ofSubscriptions says whether a method is about subscriptions.
func ofSubscriptions(method string) bool {
	return method == "subscribe" || method == "unsubscribe" || method == "unsubscribe_all"
}

// subscription answers a call that is about subscriptions.
func (c *conn) subscription(r jsonrpc.Call) []byte {
	err := c.change(r)
	switch {
	case errors.Is(err, errTooFew):
		return tooFew
	case err != nil:
		return jsonrpc.AppendAnswer(nil, r.ID, jsonrpc.Error(jsonrpc.InternalError, err.Error()))
	}
	return jsonrpc.AppendAnswer(nil, r.ID, []byte(`"result":{}`))
}

var errTooFew = errors.New("no parameters")

// change does what a call asks for. The error is what the node says.
func (c *conn) change(r jsonrpc.Call) error {
	if r.Method == "unsubscribe_all" {
		return c.subscriber.UnsubscribeAll()
	}
	if r.Params == nil {
		return errTooFew
	}
	query, err := queryOf(r.Params)
	if err != nil {
		return fmt.Errorf("error converting json params to arguments: %w", err)
	}
	if r.Method == "unsubscribe" {
		return c.subscriber.Unsubscribe(query)
	}
	text, _ := json.Marshal(query) // texts always encode
	return c.subscriber.Subscribe(query, label{r.ID, fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"result":{"query":%s,`, r.ID, text)})
}

// tell writes events until there is none.
func (c *conn) tell() {
	for {
		m, ok := c.subscriber.Next(c.ctx)
		if !ok {
			return
		}
		of := m.Label.(label) //nolint:forcetypeassert // subscription gives no other
		if m.End != nil {
			c.send(jsonrpc.AppendAnswer(nil, of.id, jsonrpc.Error(jsonrpc.ServerError, "subscription was canceled (reason: "+m.End.Error()+")")))
			continue
		}
		if c.listener != nil {
			c.listener.Announce(m.Event.Height)
		}
		c.frame(of.head, m.Event.Data())
	}
}

// queryOf reads the one parameter of subscribe and unsubscribe, by name or in a list. The
// error is the text of the node's.
func queryOf(params json.RawMessage) (query string, err error) {
	var value json.RawMessage
	if bytes.HasPrefix(bytes.TrimSpace(params), []byte("[")) {
		var list []json.RawMessage
		switch err = json.Unmarshal(params, &list); {
		case err != nil:
			return "", err
		case len(list) != 1:
			return "", fmt.Errorf("expected 1 parameters ([query]), got %d (%v)", len(list), list)
		}
		value = list[0]
	} else {
		var members map[string]json.RawMessage
		err = json.Unmarshal(params, &members)
		value = members["query"]
	}
	if err == nil && value != nil {
		err = json.Unmarshal(value, &query)
	}
	return query, err
}
