package apistore_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/apistore"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestAnswerBeyondFreeMemoryIsRefused(t *testing.T) {
	memory := account.New(1<<20, nil)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, 4<<20))
	}))
	defer server.Close()
	_, driver, err := apistore.Open(t.Context(), server.URL, collections.Options{Memory: memory.Upstream()})
	expect.NoError(t, err)
	if _, err := driver.List(t.Context(), collections.Query{Limit: 10}); !errors.Is(err, account.ErrFull) || memory.Used() != 0 {
		t.Errorf("error = %v with %d bytes reserved, want %v and 0", err, memory.Used(), account.ErrFull)
	}
}
