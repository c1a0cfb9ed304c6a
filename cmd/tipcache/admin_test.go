package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestAdminListenerClosesIdleConnectionsAboveItsLimit(t *testing.T) {
	t.Parallel()
	const dialed, limit = 200, 128
	r := startUnready(t, newDevnet(t, devnet.Options{}), nil)
	var closed atomic.Int64
	for range dialed {
		c := expect.Value(net.Dial("tcp", r.AdminAddr()))(t)
		defer c.Close()
		expect.Value(io.WriteString(c, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"))(t)
		from := bufio.NewReader(c)
		resp := expect.Value(http.ReadResponse(from, nil))(t)
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		go func() { // ends at the latest with the test
			if _, err := from.ReadByte(); err != nil {
				closed.Add(1)
			}
		}()
	}
	r.eventually("the connections above the limit are closed", func() bool { return closed.Load() >= dialed-limit })
}
