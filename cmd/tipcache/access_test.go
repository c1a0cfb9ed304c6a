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

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// createKey returns a new key and the line of the configuration that admits it.
func createKey(t *testing.T, name string) (key, line string) {
	t.Helper()
	out := expect.Value(runCommand(t, "key", "new", name))(t)
	words := strings.Fields(out)
	if len(words) != 4 || words[0] != "key" || words[2] != "line" {
		t.Fatalf("key new = %q, want a key and a line", out)
	}
	return words[1], words[3]
}

func TestNewKeyGivesAccessOnceItsLineIsConfigured(t *testing.T) {
	t.Parallel()
	key, line := createKey(t, "web")
	another, _ := createKey(t, "web")
	r := startRunning(t, newDevnet(t, devnet.Options{}), func(c *config.Config) {
		c.Collections.Keys, c.Chain.Auth = []string{line + ":2/h"}, "keys"
	})
	for _, tt := range []struct {
		key    string
		status int
	}{{another, 401}, {"", 401}, {key, 200}, {key, 200}, {key, 429}} {
		r.get(r.base+"/staking/params", "X-Api-Key", tt.key).expectStatus(t, tt.status)
	}
	r.key = key
	got := r.list(`{}`) // the APIs share the rate
	got.expectStatus(t, 429, `"status":429`)
	if got.header.Get("Retry-After") == "" {
		t.Error("Retry-After is missing")
	}
}

func TestKeyNeedsName(t *testing.T) {
	for _, args := range [][]string{{"key"}, {"key", ""}, {"key", "new"}, {"key", "new", ""}, {"key", "new", "a:b"}, {"key", "new", "a", "b"}, {"key", "old", "a"}} {
		if out, err := runCommand(t, args...); err == nil || out != "" {
			t.Errorf("%v = %q, %v; want an error alone", args, out, err)
		}
	}
}

func TestConfigPrintsReference(t *testing.T) {
	expect.Equal(t, expect.Value(runCommand(t, "config"))(t), config.Reference(), "output of config")
}

// withKeyedRPC are settings for an RPC listener that admits one key.
const withKeyedRPC = "rpc: {listen: 127.0.0.1:0}\ncollections: {store: 'sqlite::memory:', keys: ['%s']}\n"

func (s *configuredServer) dialKeyed(key string) (socketClient, error) {
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
	oldKey, oldLine := createKey(t, "web")
	key, line := createKey(t, "web")
	s := startServing(t, newDevnet(t, devnet.Options{Dialect: devnet.Cosmos}), fmt.Sprintf(withKeyedRPC, oldLine))
	c, err := s.dialKeyed(oldKey)
	expect.NoError(t, err)
	c.send(`{"id":1,"method":"subscribe","params":{"query":"tm.event='NewBlock'"}}`)
	if got := c.receive(); !strings.Contains(got, `"id":1,"result":{}`) {
		t.Fatalf("subscribe = %s, want a result", got)
	}
	s.reload(fmt.Sprintf(withKeyedRPC, line), "configuration reloaded")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for err == nil {
		_, _, err = c.conn.Read(ctx)
	}
	if websocket.CloseStatus(err) != websocket.StatusPolicyViolation {
		t.Errorf("WebSocket of the removed key closed with %v, want status %d", err, websocket.StatusPolicyViolation)
	}
	if _, err := s.dialKeyed(oldKey); err == nil {
		t.Error("WebSocket accepted with a removed key")
	}
	if _, err := s.dialKeyed(key); err != nil {
		t.Errorf("WebSocket with the new key: %v, want it accepted", err)
	}
}

func TestRuleEndsOnlyTheWebSocketsThatItDenies(t *testing.T) {
	const settings = "rpc: {listen: 127.0.0.1:0}\ncollections: {store: 'sqlite::memory:', auth: closed}\n"
	s := startServing(t, newDevnet(t, devnet.Options{Dialect: devnet.Cosmos}), settings)
	denied, other := expect.Value(s.dialKeyed(""))(t), expect.Value(s.dialKeyed(""))(t)
	denied.send(`{"id":1,"method":"subscribe","params":{"query":"tm.event='Tx' AND tx.height=1"}}`)
	if got := denied.receive(); !strings.Contains(got, `"id":1,"result":{}`) {
		t.Fatalf("subscribe = %s, want a result", got)
	}
	s.reload(settings+"access: ['deny subscribe']\n", "configuration reloaded")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	_, _, err := denied.conn.Read(ctx)
	if got := new(websocket.CloseError); !errors.As(err, got) || got.Code != websocket.StatusPolicyViolation || got.Reason != "access to subscribe is denied here" {
		t.Errorf("WebSocket with a subscription closed with %v, want status %d", err, websocket.StatusPolicyViolation)
	}
	other.send(`{"id":2,"method":"health"}`)
	if got := other.receive(); !strings.Contains(got, `"id":2,"result":{}`) {
		t.Errorf("health on the other WebSocket = %s, want a result", got)
	}
}

func TestCallsOverAWebSocketCountAgainstTheRateOfItsKey(t *testing.T) {
	t.Setenv("TIPCACHE_CHAIN_AUTH", "keys")
	key, line := createKey(t, "web")
	s := startServing(t, newDevnet(t, devnet.Options{Dialect: devnet.Cosmos}), fmt.Sprintf(withKeyedRPC, line+":4/h burst 4"))
	c := expect.Value(s.dialKeyed(key))(t) // counts as a request
	calls := []string{`"health"`, `"subscribe","params":{"query":"tm.event='Tx'"}`, `"unsubscribe_all"`, `"health"`, `"subscribe","params":{"query":"tm.event='Vote'"}`}
	for i, call := range calls {
		c.send(`{"id":%d,"method":%s}`, i, call)
		if got := c.receive(); strings.Contains(got, "too many requests") != (i >= 3) {
			t.Errorf("call %d of 3 allowed (%s) = %s, want too many requests: %t", i+1, call, got, i >= 3)
		}
	}
}
