package comet

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/tipcache/tipcache/upstream"
)

// Messages is a subscription on a connection of its own.
type Messages struct {
	conn *websocket.Conn
	hide *strings.Replacer
}

// Messages subscribes with a query and waits for the acknowledgement. A message of more than maxBytes bytes ends the
// subscription.
func (c *Client) Messages(ctx context.Context, query string, maxBytes int64) (*Messages, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	//nolint:bodyclose // the body is the connection, which is closed
	conn, _, err := websocket.Dial(ctx, c.base.String()+"/websocket", &websocket.DialOptions{HTTPClient: c.http})
	if err != nil {
		return nil, upstream.RedactError(upstream.Bare(err), c.hide)
	}
	conn.SetReadLimit(maxBytes)
	m := &Messages{conn, c.hide}
	err = conn.Write(ctx, websocket.MessageText, Request("subscribe", map[string]string{"query": query}))
	if err == nil {
		_, err = m.Next(ctx)
	}
	if err != nil {
		m.Close()
		return nil, err
	}
	return m, nil
}

// Next waits for a message and returns its result, which is empty for an acknowledgement. If the node ends the
// subscription with an error, Next returns this error.
func (m *Messages) Next(ctx context.Context) (json.RawMessage, error) {
	_, data, err := m.conn.Read(ctx)
	var result json.RawMessage
	if err == nil {
		result, err = Result(data)
	}
	return result, upstream.RedactError(err, m.hide) // a node chooses the close reason
}

// Close ends the subscription at once.
func (m *Messages) Close() { _ = m.conn.CloseNow() }

// A Header is the used part of a block's header.
type Header struct {
	ChainID string    `json:"chain_id"`
	Height  int64     `json:"height,string"`
	Time    time.Time `json:"time"`
	Last    struct {
		Hash string `json:"hash"`
	} `json:"last_block_id"` // the parent block
}

// Headers is a subscription to the headers of new blocks. A header arrives when its block can be read. Missed headers
// are not repeated after a reconnect.
type Headers interface {
	// Next waits for a header. It returns a zero header for an acknowledgement. If the node ends the subscription
	// with an error, Next returns a Refusal.
	Next(ctx context.Context) (Header, error)
	// Close ends the subscription at once and unblocks Next.
	Close()
}

type headers struct{ *Messages }

// Subscribe connects and waits for the acknowledgement. It drops a header that arrives before the acknowledgement, so
// the caller polls the height after subscribing.
func (c *Client) Subscribe(ctx context.Context) (Headers, error) {
	m, err := c.Messages(ctx, "tm.event='NewBlockHeader'", maxRead)
	if err != nil {
		return nil, err
	}
	return headers{m}, nil
}

func (h headers) Next(ctx context.Context) (Header, error) {
	result, err := h.Messages.Next(ctx)
	if err != nil {
		return Header{}, err
	}
	var event struct {
		Data struct {
			Value struct {
				Header Header `json:"header"`
			} `json:"value"`
		} `json:"data"`
	}
	err = json.Unmarshal(result, &event)
	return event.Data.Value.Header, err
}
