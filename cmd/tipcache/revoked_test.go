package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// withKeyedRPC serves the RPC to clients that have one of some keys.
const withKeyedRPC = "rpc: {listen: 127.0.0.1:0}\ncollections: {store: 'sqlite::memory:', keys: ['%s']}\n"

func (s *serving) dialKeyed(key string) (socketClient, error) {
	s.t.Helper()
	rpc := gjson.Get(s.get(s.admin+"/readyz").body, "interfaces.rpc").String()
	conn, _, err := websocket.Dial(s.t.Context(), "http://"+rpc+"/websocket", &websocket.DialOptions{HTTPHeader: http.Header{"X-Api-Key": {key}}})
	if err == nil {
		s.t.Cleanup(func() { _ = conn.CloseNow() })
	}
	return socketClient{s.t, conn}, err
}

func TestWebSocketClosesWhenKeyIsRemoved(t *testing.T) {
	t.Setenv("TIPCACHE_CHAIN_AUTH", "keys")
	oldKey, oldLine := keyFrom(t, "web")
	key, line := keyFrom(t, "web")
	s := startServing(t, newDevnet(t, devnet.Options{Dialect: devnet.Cosmos}), fmt.Sprintf(withKeyedRPC, oldLine))
	c, err := s.dialKeyed(oldKey)
	expect.NoError(t, err)
	c.say(`{"id":1,"method":"subscribe","params":{"query":"tm.event='NewBlock'"}}`)
	if got := c.hear(); !strings.Contains(got, `"id":1,"result":{}`) {
		t.Fatalf("subscribe = %s, want a result", got)
	}
	s.hangup(fmt.Sprintf(withKeyedRPC, line), "configuration reloaded")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for err == nil {
		_, _, err = c.conn.Read(ctx)
	}
	if websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("the socket ended with %v, want status %d", err, websocket.StatusPolicyViolation)
	}
	if _, err := s.dialKeyed(oldKey); err == nil {
		t.Error("WebSocket accepted with a removed key")
	}
	if _, err := s.dialKeyed(key); err != nil {
		t.Errorf("no socket with the new key: %v", err)
	}
}

func TestRuleEndsOnlyTheWebSocketsThatItDenies(t *testing.T) {
	const settings = "rpc: {listen: 127.0.0.1:0}\ncollections: {store: 'sqlite::memory:', auth: closed}\n"
	s := startServing(t, newDevnet(t, devnet.Options{Dialect: devnet.Cosmos}), settings)
	var sockets [2]socketClient
	for i := range sockets {
		c := expect.Value(s.dialKeyed(""))(t)
		sockets[i] = c
	}
	sockets[0].say(`{"id":1,"method":"subscribe","params":{"query":"tm.event='Tx' AND tx.height=1"}}`)
	if got := sockets[0].hear(); !strings.Contains(got, `"id":1,"result":{}`) {
		t.Fatalf("subscribe = %s, want a result", got)
	}
	s.hangup(settings+"access: ['deny subscribe']\n", "configuration reloaded")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, _, err := sockets[0].conn.Read(ctx)
	if got := new(websocket.CloseError); !errors.As(err, got) || got.Code != websocket.StatusPolicyViolation || got.Reason != "access to subscribe is denied here" {
		t.Errorf("the socket with a subscription ended with %v, want status %d", err, websocket.StatusPolicyViolation)
	}
	sockets[1].say(`{"id":2,"method":"health"}`)
	if got := sockets[1].hear(); !strings.Contains(got, `"id":2,"result":{}`) {
		t.Errorf("health on the other socket = %s, want a result", got)
	}
}

func TestCallsOverAWebSocketCountAgainstTheRateOfItsKey(t *testing.T) {
	t.Setenv("TIPCACHE_CHAIN_AUTH", "keys")
	key, line := keyFrom(t, "web")
	s := startServing(t, newDevnet(t, devnet.Options{Dialect: devnet.Cosmos}), fmt.Sprintf(withKeyedRPC, line+":4/h burst 4"))
	c, err := s.dialKeyed(key) // counts, too
	expect.NoError(t, err)
	calls := []string{`"health"`, `"subscribe","params":{"query":"tm.event='Tx'"}`, `"unsubscribe_all"`, `"health"`, `"subscribe","params":{"query":"tm.event='Vote'"}`}
	for i, call := range calls {
		c.say(`{"id":%d,"method":%s}`, i, call)
		if got := c.hear(); strings.Contains(got, "too many requests") != (i >= 3) {
			t.Errorf("call %d, %s, of a key that may ask 3 more times: %s", i+1, call, got)
		}
	}
}
