package comet

import (
	"context"
	"encoding/json"
	"time"
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

// A Subscription streams the headers of new blocks. A header arrives when its
// block can be read; nothing is replayed after a reconnect.
type Subscription struct{ messages *Messages }

// Subscribe connects and waits for the acknowledgement. A header may overtake it. It is
// not missed: the caller asks for the height once more after subscribing.
func (c *Client) Subscribe(ctx context.Context) (*Subscription, error) {
	m, err := c.Messages(ctx, "tm.event='NewBlockHeader'", maxRead)
	if err != nil {
		return nil, err
	}
	return &Subscription{m}, nil
}

// Next waits for a message; the header is zero for an acknowledgement. The
// node says why it ends a subscription, as a Refusal, before it closes.
func (s *Subscription) Next(ctx context.Context) (Header, error) {
	result, err := s.messages.Next(ctx)
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

// Close ends the subscription at once.
func (s *Subscription) Close() { s.messages.Close() }
