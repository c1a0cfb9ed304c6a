package metadata_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/leaktest"
	"github.com/tipcache/tipcache/upstream/logtest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// key is what must not be seen anywhere.
const key = "sEcReT-k3y"

const (
	one = "0x0000000000000000000000000000000000000abc"
	two = "0x0000000000000000000000000000000000000def"
)

func addresses(n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf("0x%040x", i+1)
	}
	return all
}

// memory is a Store.
type memory struct {
	mu      sync.Mutex
	records map[string]metadata.Record
	loaded  func() // called after each Load has read, if set
}

func (m *memory) Load(_ context.Context, keys []string) map[string]metadata.Record {
	found := map[string]metadata.Record{}
	m.mu.Lock()
	for _, k := range keys {
		if r, ok := m.records[k]; ok {
			found[k] = r
		}
	}
	loaded := m.loaded
	m.mu.Unlock()
	if loaded != nil {
		loaded()
	}
	return found
}

func (m *memory) Save(_ context.Context, records map[string]metadata.Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.records == nil {
		m.records = map[string]metadata.Record{}
	}
	maps.Copy(m.records, records)
}

func (m *memory) keys() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.records))
}

// control is what the service asks for where it knows no other contract that shows
// whether the provider is well.
const control = "0x000000000000000000000000000000000000dead"

// alchemy is a provider. Of every contract it says that its name is the number
// of the batch it was asked for in. Requests for the control alone are no batches.
type alchemy struct {
	mu    sync.Mutex
	asked [][]string
	times []time.Time
	fault http.HandlerFunc // answers in its place, if set
}

func (a *alchemy) fail(with http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fault = with
}

func (a *alchemy) batches() [][]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.asked)
}

func (a *alchemy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.answer(w, r, nil)
}

// answer is the fault's where it is not nil.
func (a *alchemy) answer(w http.ResponseWriter, r *http.Request, fault http.HandlerFunc) {
	var question struct {
		ContractAddresses []string `json:"contractAddresses"`
	}
	if err := json.NewDecoder(r.Body).Decode(&question); err != nil || !strings.HasSuffix(r.URL.Path, "/"+key+"/getContractMetadataBatch") {
		http.Error(w, "not a batch", http.StatusTeapot)
		return
	}
	a.mu.Lock()
	if !slices.Equal(question.ContractAddresses, []string{control}) {
		a.asked = append(a.asked, question.ContractAddresses)
		a.times = append(a.times, time.Now())
	}
	batch := len(a.asked)
	if fault == nil {
		fault = a.fault
	}
	a.mu.Unlock()
	if fault != nil {
		fault(w, r)
		return
	}
	describe(w, batch, question.ContractAddresses)
}

// describe answers like Alchemy, in an order and a spelling of its own.
func describe(w http.ResponseWriter, batch int, addresses []string) {
	var contracts []map[string]any
	for _, a := range slices.Backward(addresses) {
		spelled := "0x" + strings.ToUpper(a[2:])
		contracts = append(contracts, map[string]any{"address": spelled, "name": fmt.Sprint(batch), "symbol": nil})
	}
	json.NewEncoder(w).Encode(map[string]any{"contracts": contracts})
}

// inBubble is the provider without a socket, for tests that own the clock.
func inBubble(h http.Handler) http.RoundTripper {
	return roundTrip(func(r *http.Request) (*http.Response, error) {
		answer := httptest.NewRecorder()
		if r.Context().Err() == nil {
			h.ServeHTTP(answer, r)
		}
		if err := r.Context().Err(); err != nil {
			return nil, err
		}
		return answer.Result(), nil
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// slow answers after the time, unless the client is gone by then.
func slow(by time.Duration, then http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case <-time.After(by):
			then(w, r)
		case <-r.Context().Done():
		}
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func text(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte(body)) }
}

// unhurried gives pages and lookups time enough for a busy machine, in tests that
// do not own the clock.
func unhurried(o metadata.Options) metadata.Options {
	o.Budget, o.Timeout = 40*time.Second, time.Minute
	return o
}

// open starts a service on the spec, closed with the test.
func open(t testing.TB, spec string, o metadata.Options) *metadata.Service {
	t.Helper()
	if o.Store == nil {
		o.Store = &memory{}
	}
	s := expect.Value(metadata.Open(spec, o))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

// openAlchemy starts a service on a provider without a socket.
func openAlchemy(t testing.TB, a *alchemy, o metadata.Options) *metadata.Service {
	t.Helper()
	o.Transport = inBubble(a)
	return open(t, "alchemy:https://example.invalid/nft/v3/"+key, o)
}

// names are the names in the answer, "" for {}.
func names(t testing.TB, found map[string]json.RawMessage) map[string]string {
	t.Helper()
	all := map[string]string{}
	for a, body := range found {
		var c struct{ Name string }
		if err := json.Unmarshal(body, &c); err != nil {
			t.Fatalf("%s: %v in %s", a, err, body)
		}
		all[a] = c.Name
	}
	return all
}

func lookup(t testing.TB, s *metadata.Service, address string) (name string, degraded bool) {
	t.Helper()
	found, degraded := s.Lookup(t.Context(), []string{address})
	return names(t, found)[address], degraded
}

// logged collects what the service logs.
type logged struct{ logtest.Log }

func (l *logged) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

func state(s *metadata.Service) string {
	state, _ := s.State()
	return state
}
