package comet

import (
	"errors"
	"net/http"
	"testing"

	"github.com/coder/websocket"

	"github.com/tipcache/tipcache/upstream/expect"
)

// serveSocket fakes a node that acknowledges a subscription with the first message, sends the others, and waits until the
// client closes the connection.
func serveSocket(t *testing.T, messages ...string) (c *Client, closed chan error) {
	t.Helper()
	closed = make(chan error, 1)
	return newClient(t, func(w http.ResponseWriter, r *http.Request) {
		conn, err := websocket.Accept(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer func() { _ = conn.CloseNow() }()
		if _, _, err := conn.Read(r.Context()); err != nil {
			t.Error(err)
		}
		for _, m := range messages {
			if err := conn.Write(r.Context(), websocket.MessageText, []byte(m)); err != nil {
				t.Error(err)
			}
		}
		_, _, err = conn.Read(r.Context())
		closed <- err
	}), closed
}

func TestSubscriptionDeliversHeadersAndClosesItsConnection(t *testing.T) {
	c, closed := serveSocket(t, `{"result":{}}`, `{"result":{"data":{"value":{"header":{"chain_id":"c","height":"7"}}}}}`, `{"result":[]}`)
	s := expect.Value(c.Subscribe(t.Context()))(t)
	if h, err := s.Next(t.Context()); err != nil || h.Height != 7 || h.ChainID != "c" {
		t.Errorf("Next = %+v, %v; want block 7 of c", h, err)
	}
	if h, err := s.Next(t.Context()); err == nil {
		t.Errorf("Next with a malformed event = %+v, want an error", h)
	}
	s.Close()
	if err := <-closed; err == nil {
		t.Error("read at the node after Close succeeds, want an error")
	}
	if _, err := s.Next(t.Context()); err == nil {
		t.Error("Next after Close succeeds, want an error")
	}
}

func TestRefusedSubscriptionClosesItsConnection(t *testing.T) {
	c, closed := serveSocket(t, `{"error":{"code":-32603,"message":"Internal error","data":"max_subscriptions_per_client 5 reached"}}`)
	_, err := c.Subscribe(t.Context())
	if refusal, ok := errors.AsType[*Refusal](err); !ok || refusal.Code != -32603 {
		t.Errorf("Subscribe = %v, want the node's refusal", err)
	}
	<-closed
}
