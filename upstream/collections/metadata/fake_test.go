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
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/leaktest"
	"github.com/tipcache/tipcache/upstream/logtest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// key is a secret in the provider's URL that no log, metric or description may contain.
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

// memory is a Store in memory.
type memory struct {
	mu      sync.Mutex
	records map[string]metadata.Record
}

func (m *memory) Load(_ context.Context, keys []string) map[string]metadata.Record {
	found := map[string]metadata.Record{}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range keys {
		if r, ok := m.records[k]; ok {
			found[k] = r
		}
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

// control is the contract that the service requests to find out whether the provider works.
const control = "0x000000000000000000000000000000000000dead"

// alchemy is a provider. The name of each contract is the number of the batch that requested it. Requests for only the
// control do not count as batches.
type alchemy struct {
	mu        sync.Mutex
	requested [][]string
	times     []time.Time
	fault     http.HandlerFunc // answers instead; may be nil
}

func (a *alchemy) fail(with http.HandlerFunc) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.fault = with
}

func (a *alchemy) batches() [][]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.requested)
}

func (a *alchemy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.answer(w, r, nil)
}

// answer records a batch and answers it. The first of fault and a.fault that is not nil answers instead.
func (a *alchemy) answer(w http.ResponseWriter, r *http.Request, fault http.HandlerFunc) {
	var request struct {
		ContractAddresses []string `json:"contractAddresses"`
	}
	if err := json.NewDecoder(r.Body).Decode(&request); err != nil || !strings.HasSuffix(r.URL.Path, "/"+key+"/getContractMetadataBatch") {
		http.Error(w, "not a batch", http.StatusTeapot)
		return
	}
	a.mu.Lock()
	if !slices.Equal(request.ContractAddresses, []string{control}) {
		a.requested = append(a.requested, request.ContractAddresses)
		a.times = append(a.times, time.Now())
	}
	batch := len(a.requested)
	if fault == nil {
		fault = a.fault
	}
	a.mu.Unlock()
	if fault != nil {
		fault(w, r)
		return
	}
	describe(w, batch, request.ContractAddresses)
}

// describe answers like Alchemy, with another order and case of the addresses.
func describe(w http.ResponseWriter, batch int, addresses []string) {
	var contracts []map[string]any
	for _, a := range slices.Backward(addresses) {
		contracts = append(contracts, map[string]any{"address": "0x" + strings.ToUpper(a[2:]), "name": fmt.Sprint(batch), "symbol": nil})
	}
	json.NewEncoder(w).Encode(map[string]any{"contracts": contracts})
}

// inBubble returns a transport that calls a provider without a socket, for tests with synctest.
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

// slow answers after a time, unless the client leaves before.
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

// unhurried sets timeouts that suffice on a busy machine, for tests without synctest.
func unhurried(o metadata.Options) metadata.Options {
	o.Budget, o.Timeout = 40*time.Second, time.Minute
	return o
}

// open returns a service that is closed when the test ends.
func open(t testing.TB, spec string, o metadata.Options) *metadata.Service {
	t.Helper()
	if o.Store == nil {
		o.Store = &memory{}
	}
	o.Provider = spec
	s := expect.Value(metadata.Open(o))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

// openAlchemy returns a service with a provider without a socket.
func openAlchemy(t testing.TB, provider http.Handler, o metadata.Options) *metadata.Service {
	t.Helper()
	o.Transport = inBubble(provider)
	return open(t, "alchemy:https://example.invalid/nft/v3/"+key, o)
}

// names returns the names in descriptions, "" for {}.
func names(t testing.TB, found map[string]json.RawMessage) map[string]string {
	t.Helper()
	all := map[string]string{}
	for a, body := range found {
		var c struct{ Name string }
		if err := json.Unmarshal(body, &c); err != nil {
			t.Fatalf("description of %s = %s: %v", a, body, err)
		}
		all[a] = c.Name
	}
	return all
}

// wantNames fails the test unless a lookup returns these names.
func wantNames(t testing.TB, s *metadata.Service, addresses []string, want map[string]string, wantDegraded bool) {
	t.Helper()
	found, degraded := s.Lookup(t.Context(), addresses)
	expect.NoDiff(t, names(t, found), want, "names")
	expect.Equal(t, degraded, wantDegraded, "degraded")
}

// wantName is wantNames for one address.
func wantName(t testing.TB, s *metadata.Service, address, want string, wantDegraded bool) {
	t.Helper()
	wantNames(t, s, []string{address}, map[string]string{address: want}, wantDegraded)
}

// wantDescribed fails the test unless a lookup returns this number of descriptions.
func wantDescribed(t testing.TB, s *metadata.Service, addresses []string, want int, wantDegraded bool) {
	t.Helper()
	found, degraded := s.Lookup(t.Context(), addresses)
	n := 0
	for _, body := range found {
		if string(body) != "{}" {
			n++
		}
	}
	expect.Equal(t, n, want, "described contracts of %d", len(addresses))
	expect.Equal(t, degraded, wantDegraded, "degraded")
}

func lookup(t testing.TB, s *metadata.Service, address string) (name string, degraded bool) {
	t.Helper()
	found, degraded := s.Lookup(t.Context(), []string{address})
	return names(t, found)[address], degraded
}

// logBuffer collects the log of a service.
type logBuffer struct{ logtest.Log }

func (l *logBuffer) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// settle waits until workers have requested all queued contracts from a provider that responds at once. For tests with synctest.
func settle() {
	time.Sleep(10 * time.Millisecond) // more than a batch waits for addresses
	synctest.Wait()
}

func state(s *metadata.Service) string {
	state, _ := s.State()
	return state
}
