package web

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/record"
)

func TestPanicInExchangeIsReturnedAsError(t *testing.T) {
	s := New(Options{}, nil)
	err := s.Exchange(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/websocket", nil), "rpc block", func(*record.Record) (int, error) { panic("a defect") })
	if err == nil || !strings.Contains(err.Error(), "a defect") || failure.Of(err).Public != "internal error" {
		t.Errorf("the error is %v", err)
	}
}
