package main

import (
	"context"
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
)

func TestBlockIsReadableOnceItsRPCEventArrives(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Dialect: devnet.Cosmos, Interval: 300 * time.Millisecond})
	s := startRunning(t, d, func(c *config.Config) { c.RPC.Listen = "127.0.0.1:0" })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws://"+s.RPCAddr()+"/websocket", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(1 << 20)
	say := func(message string) {
		if err := conn.Write(ctx, websocket.MessageText, []byte(message)); err != nil {
			t.Fatal(err)
		}
	}
	say(`{"jsonrpc":"2.0","id":"events","method":"subscribe","params":{"query":"tm.event='NewBlockHeader'"}}`)
	for read := 0; read < 3; {
		_, message, err := conn.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		at := gjson.GetBytes(message, "result.data.value.header.height").String()
		if at == "" {
			continue // the acknowledgement, and the response to the request below
		}
		read++
		block := s.do(http.MethodPost, "http://"+s.RPCAddr(), `{"id":1,"method":"block","params":{"height":"`+at+`"}}`)
		if gjson.Get(block.body, "result.block.header.height").String() != at || block.status != http.StatusOK {
			t.Errorf("block %s was announced, and cannot be read: %d %.200s", at, block.status, block.body)
		}
		say(`{"jsonrpc":"2.0","id":` + at + `,"method":"header","params":{"height":"` + at + `"}}`)
	}
}

func TestStatusNamesReadableBlock(t *testing.T) {
	d := newDevnet(t, devnet.Options{Dialect: devnet.Cosmos, Interval: 200 * time.Millisecond})
	s := startRunning(t, d, func(c *config.Config) { c.RPC.Listen = "127.0.0.1:0" })
	for range 20 {
		var status struct {
			Result struct {
				SyncInfo struct {
					Height string `json:"latest_block_height"`
				} `json:"sync_info"`
			}
		}
		said := s.do(http.MethodPost, "http://"+s.RPCAddr(), `{"id":1,"method":"status","params":{}}`)
		if err := json.Unmarshal([]byte(said.body), &status); err != nil {
			t.Fatalf("%v: %s", err, said.body)
		}
		at := status.Result.SyncInfo.Height
		if r := s.get(s.base+"/cosmos/staking/v1beta1/params", "X-Block-Height", at); r.status != http.StatusOK || r.height() != at {
			t.Errorf("the newest block is %s, and a read at it is a %d at block %q", at, r.status, r.height())
		}
	}
}
