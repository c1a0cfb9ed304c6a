package rpc_test

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/web"
)

// BenchmarkHit compares a hit of abci_query by POST, under an id that is never the same and with
// the log on, with a bare handler of Gin that reads the body and answers with as many bytes. CPU
// is that of the client, too, which writes and reads by hand.
func BenchmarkHit(b *testing.B) {
	n := newRecordedNode(b)
	n.learnParams()
	logged := func(o *web.Options) {
		o.AccessLog, o.Logger = io.Discard, slog.New(slog.NewTextHandler(io.Discard, nil))
	}
	handler, _ := newHandler(b, n, rpc.Options{}, logged)
	fast, _ := newHandler(b, n, rpc.Options{}, logged, withLane)
	_, answer := post(b, handler.URL, fmt.Sprintf(balance[0], "100000000"))
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.POST("/", func(c *gin.Context) {
		_, _ = io.ReadAll(c.Request.Body)
		c.Data(http.StatusOK, "application/json", []byte(answer))
	})
	bare := httptest.NewServer(engine)
	b.Cleanup(bare.Close)
	b.Run("bare", func(b *testing.B) { measure(b, bare) })
	b.Run("handler", func(b *testing.B) { measure(b, handler) })
	b.Run("lane", func(b *testing.B) { measure(b, fast) })
}

// measure makes calls on eight connections.
func measure(b *testing.B, server *httptest.Server) {
	var left atomic.Int64
	before := cpu()
	b.ResetTimer()
	left.Store(int64(b.N))
	var clients sync.WaitGroup
	for range 8 {
		clients.Go(func() {
			c, err := net.Dial("tcp", strings.TrimPrefix(server.URL, "http://"))
			if err != nil {
				b.Error(err)
				return
			}
			defer func() { _ = c.Close() }()
			room := make([]byte, 8<<10)
			for i := left.Add(-1); i >= 0; i = left.Add(-1) {
				body := fmt.Sprintf(balance[0], fmt.Sprint(100_000_000+i))
				_, _ = fmt.Fprintf(c, "POST / HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
				if _, err := c.Read(room); err != nil { // an answer is written at once
					b.Error(err)
				}
			}
		})
	}
	clients.Wait()
	b.ReportMetric(float64(cpu()-before)/float64(b.N), "cpu-ns/op")
}

// cpu is what this process has used, in nanoseconds.
func cpu() int64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return u.Utime.Nano() + u.Stime.Nano()
}
