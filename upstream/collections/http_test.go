package collections_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/expect"
)

// httpFixture returns a store that reads from a server with a SQLite store.
func httpFixture(t *testing.T) fixture {
	backend := open(t, "sqlite::memory:", collections.Options{})
	return fixture{
		store:  open(t, serve(t, v4(backend))+"/api/v4/", collections.Options{Settings: collections.Settings{StoreKey: "the key"}}),
		writer: backend,
	}
}

func serve(t *testing.T, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// v4 returns a handler that serves a store with the documented API. It refuses other requests.
func v4(s *collections.Store) http.HandlerFunc {
	orders := map[string]collections.OrderBy{
		"updatedAt": collections.UpdatedAt, "assetCount": collections.AssetCount, "licensesCount": collections.LicensesCount,
	}
	return func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			OrderBy, OrderDirection string
			Pagination              struct{ Limit, Offset int }
			Where                   struct {
				CollectionAddresses          []string
				MinAssetCount, MaxAssetCount *int64
			}
		}
		body := json.NewDecoder(r.Body)
		body.DisallowUnknownFields()
		order, known := orders[""], false
		if err := body.Decode(&q); err == nil {
			order, known = orders[q.OrderBy]
		}
		documented := r.Method == http.MethodPost && r.URL.Path == "/api/v4/collections" &&
			r.Header.Get("Content-Type") == "application/json" && r.Header.Get("X-Api-Key") == "the key"
		if !documented || !known || q.Pagination.Limit < 1 {
			http.Error(w, "not the documented request", http.StatusUnprocessableEntity)
			return
		}
		page, err := s.List(r.Context(), collections.Query{
			OrderBy: order, Desc: q.OrderDirection == "desc", Limit: q.Pagination.Limit, Offset: q.Pagination.Offset,
			Addresses: q.Where.CollectionAddresses, MinAssets: q.Where.MinAssetCount, MaxAssets: q.Where.MaxAssetCount,
		})
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		_ = json.NewEncoder(w).Encode(answer(page, q.Pagination.Limit, q.Pagination.Offset))
	}
}

type object = map[string]any

// answer returns the documented response.
func answer(page collections.Page, limit, offset int) object {
	data := []object{}
	for _, c := range page.Items {
		data = append(data, object{
			"collectionAddress": c.Address, "assetCount": c.AssetCount, "licensesCount": c.LicensesCount,
			"raisedDisputeCount": c.RaisedDisputeCount, "cancelledDisputeCount": c.CancelledDisputeCount,
			"judgedDisputeCount": c.JudgedDisputeCount, "resolvedDisputeCount": c.ResolvedDisputeCount,
			"createdAt": c.CreatedAt, "updatedAt": c.UpdatedAt,
		})
	}
	return object{
		"$schema": "https://host/api/v4/CollectionsResponseBodyHuma.json", "data": data,
		"pagination": object{
			"limit": limit, "offset": offset, "total": page.Total, "hasMore": int64(offset+len(data)) < page.Total,
		},
	}
}

func TestListEndsWithTimeoutIfServerHangs(t *testing.T) {
	t.Parallel()
	url := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // otherwise the server does not notice that its client has left
		<-r.Context().Done()
	})
	s := open(t, url, collections.Options{Settings: collections.Settings{Timeout: 500 * time.Millisecond}})
	_, err := s.List(t.Context(), collections.Query{})
	wantSilence(t, err, upstream.Timeout)
}

func TestHTTPWithoutAServerIsUnreachable(t *testing.T) {
	s := open(t, "http://127.0.0.1:1/api/v4", collections.Options{})
	_, err := s.List(t.Context(), collections.Query{})
	wantSilence(t, err, upstream.Unreachable)
	wantSilence(t, s.Ping(t.Context()), upstream.Unreachable)
}

func TestHTTPIsReadOnly(t *testing.T) {
	s := open(t, "https://host.invalid/api/v4//", collections.Options{})
	_, err := s.Import(t.Context(), each(some(1)))
	expect.ErrorIs(t, err, collections.ErrReadOnly, "Import")
	expect.Equal(t, s.Name(), "https://host.invalid/api/v4", "name")
}

func TestKeyEchoedByServerIsRedacted(t *testing.T) {
	const key = "sEcReT-k3y"
	for name, response := range map[string]struct {
		status int
		body   string
	}{
		"in a problem":          {401, `{"title":"Unauthorized","detail":"the key ` + key + ` is not known"}`},
		"in a title":            {500, `{"title":"` + key + `"}`},
		"where a text is cut":   {403, `{"detail":"` + strings.Repeat("x", 195) + key + `"}`},
		"in upper case":         {429, `{"detail":"` + strings.ToUpper(key) + ` asks too often"}`},
		"in a page":             {200, `{"data":[{"collectionAddress":"0xe785E82358879F061BC3dcAC6f0444462D4b5330","createdAt":"` + key + `"}],"pagination":{"total":1}}`},
		"in a field of numbers": {200, `{"data":[{"assetCount":"` + key + `"}],"pagination":{"total":1}}`},
	} {
		var log bytes.Buffer
		url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(response.status)
			_, _ = io.WriteString(w, response.body)
		})
		s := open(t, url+"/api/v4", collections.Options{Settings: collections.Settings{StoreKey: key}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		_, err := s.List(t.Context(), collections.Query{})
		if err == nil {
			t.Fatalf("List with the key %s = nil, want an error", name)
		}
		if text := strings.ToLower(err.Error() + log.String()); strings.Contains(text, strings.ToLower(key)[:6]) {
			t.Errorf("error and log with the key %s = %s, want it redacted", name, text)
		}
	}
}

func TestOutageOfStoreIsLoggedAtStartAndEnd(t *testing.T) {
	var log bytes.Buffer
	var down atomic.Bool
	handler := v4(open(t, "sqlite::memory:", collections.Options{}))
	s := open(t, serve(t, func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		handler(w, r)
	})+"/api/v4", collections.Options{Settings: collections.Settings{StoreKey: "the key"}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	for _, isDown := range []bool{false, true, true, true, false, false} {
		down.Store(isDown)
		if _, err := s.List(t.Context(), collections.Query{}); (err != nil) != isDown {
			t.Errorf("List while the server is down (%t) = %v", isDown, err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	collections.NewWatch(s, prometheus.NewRegistry()).Run(ctx) // a store without a mark is not an outage
	for _, line := range []string{`level=WARN msg="upstream unreachable" origin="collection store http://127.0.0.1`, "status 502", `level=INFO msg="upstream reachable again"`} {
		if n := strings.Count(log.String(), line); n != 1 {
			t.Errorf("log has %q %d times, want once:\n%s", line, n, log.String())
		}
	}
}
