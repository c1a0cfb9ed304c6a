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

func TestAdminListenersCloseIdleConnectionsAboveTheirLimit(t *testing.T) {
	t.Parallel()
	const dialed, limit = 200, 128
	d := newDevnet(t, devnet.Options{})
	index := startProgram(t, nil, indexArgs(d, sqliteURL(t), "--follow", "--admin", "127.0.0.1:0")...)
	for _, address := range []string{startUnready(t, d, nil).AdminAddr(), host(index.admin())} {
		var closed atomic.Int64
		for range dialed {
			c := expect.Value(net.Dial("tcp", address))(t)
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
		expect.Eventually(t, "the connections above the limit are closed", func() bool { return closed.Load() >= dialed-limit })
	}
}
