package evm

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
)

func TestAnswerBeyondFreeMemoryIsRefused(t *testing.T) {
	memory := account.New(1<<20, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 4<<20))
	}))
	defer server.Close()
	c := &client{url: server.URL, http: server.Client(), secret: upstream.NewRedactor(nil), maxBody: 64 << 20, memory: memory.Upstream()}
	_, err := c.call(t.Context(), time.Minute, Call{Method: "eth_getLogs"})
	if err == nil || !strings.Contains(err.Error(), "exceeds the free memory") || memory.Used() != 0 {
		t.Errorf("error = %v with %d bytes reserved, want a refusal and 0", err, memory.Used())
	}
}
