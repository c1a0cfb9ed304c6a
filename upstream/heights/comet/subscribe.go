package comet

import (
	"context"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/tipcache/tipcache/upstream"
)

// A Header is what is used of a block's header.
type Header struct {
	ChainID string    `json:"chain_id"`
	Height  int64     `json:"height,string"`
	Time    time.Time `json:"time"`
	Last    struct {
		Hash string `json:"hash"`
	} `json:"last_block_id"` // the block before
}

const subscribe = `{"jsonrpc":"2.0","method":"subscribe","id":1,"params":{"query":"tm.event='NewBlockHeader'"}}`

// A Subscription streams the headers of new blocks. A header arrives when its
// block can be read; nothing is replayed after a reconnect.
type Subscription struct {
	conn *websocket.Conn
	hide *strings.Replacer
}

// Subscribe connects and waits for the acknowledgement.
func (c *Client) Subscribe(ctx context.Context) (*Subscription, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	//nolint:bodyclose // the body is the connection, which is closed
	conn, _, err := websocket.Dial(ctx, c.base.String()+"/websocket", &websocket.DialOptions{HTTPClient: c.http})
	if err != nil {
		return nil, upstream.RedactError(upstream.Bare(err), c.hide)
	}
	conn.SetReadLimit(maxRead)
	s := &Subscription{conn, c.hide}
	if err := conn.Write(ctx, websocket.MessageText, []byte(subscribe)); err != nil {
		s.Close()
		return nil, err
	}
	// A header may overtake the acknowledgement. It is not missed: the caller
	// asks for the height once more after subscribing.
	if _, err := s.Next(ctx); err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// Next waits for a message; the header is zero for an acknowledgement. The
// node says why it ends a subscription, as an rpcError, before it closes.
func (s *Subscription) Next(ctx context.Context) (Header, error) {
	_, data, err := s.conn.Read(ctx)
	if err != nil { // of a node that closes, with its words
		return Header{}, upstream.RedactError(err, s.hide)
	}
	var event struct {
		Data struct {
			Value struct {
				Header Header `json:"header"`
			} `json:"value"`
		} `json:"data"`
	}
	err = upstream.RedactError(decode(data, &event), s.hide)
	return event.Data.Value.Header, err
}

// Close ends the subscription at once.
func (s *Subscription) Close() { _ = s.conn.CloseNow() }
