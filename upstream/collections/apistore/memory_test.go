package apistore_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream"
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
	_, err = driver.List(t.Context(), collections.Query{Limit: 10})
	if !errors.Is(err, account.ErrFull) || upstream.KindOf(err) != upstream.Overloaded || memory.Used() != 0 {
		t.Errorf("error = %v with %d bytes reserved, want %v as overload, and 0", err, memory.Used(), account.ErrFull)
	}
}

func TestEmptyCollectionsUseLittleMemory(t *testing.T) {
	const most = 4 << 20
	body := `{"data":[` + strings.Repeat(`{},`, most/3) + `{}],"pagination":{"total":1}}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
	defer server.Close()
	_, driver, err := apistore.Open(t.Context(), server.URL, collections.Options{})
	expect.NoError(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	if _, err := driver.List(t.Context(), collections.Query{Limit: 10}); err == nil {
		t.Error("error of a page with too many collections = nil, want one")
	}
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 16*most {
		t.Errorf("allocated bytes = %d for %d bytes of collections, want at most %d", allocated, len(body), 16*most)
	}
}
