package metadata_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/expect"
)

// selective is an Alchemy with a fault that affects only batches with one of the contracts.
type selective struct {
	alchemy
	contracts []string
	fault     http.HandlerFunc
}

func (p *selective) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if slices.ContainsFunc(p.contracts, func(a string) bool { return bytes.Contains(body, []byte(a)) }) {
		p.answer(w, r, p.fault)
	} else {
		p.answer(w, r, nil)
	}
}

func TestFailingContractDoesNotAffectOthersInBatch(t *testing.T) {
	faults := map[string]http.HandlerFunc{
		"refused":        status(http.StatusBadRequest),
		"too large":      text(`{"contracts":[],"x":"` + strings.Repeat("x", 8<<20) + `"}`),
		"malformed":      text(`{"contracts":[{"name":"\u00`),
		"an error":       text(`{"error":{"message":"cannot describe"}}`),
		"a server error": status(http.StatusInternalServerError),
		"a redirect":     http.RedirectHandler("/elsewhere", http.StatusFound).ServeHTTP,
		"forbidden":      status(http.StatusForbidden),
		"never answered": slow(time.Hour, status(http.StatusOK)),
	}
	all := addresses(50)
	for name, fault := range faults {
		for _, bad := range [][]string{all[17:18], {all[0], all[25], all[49]}} {
			t.Run("a batch that is "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					provider := &selective{contracts: bad, fault: fault}
					log := &logBuffer{}
					s := openAlchemy(t, provider, metadata.Options{Failures: 1, Logger: log.logger()})
					s.Lookup(t.Context(), all)
					time.Sleep(2 * time.Minute)
					requests := len(provider.batches())
					expect.Equal(t, requests, 1+50, "requests to find %d contracts", len(bad))
					wantDescribed(t, s, all, 50-len(bad), false)
					time.Sleep(5 * time.Minute)
					wantDescribed(t, s, all, 50-len(bad), false)
					synctest.Wait()
					expect.Equal(t, len(provider.batches()), requests, "requests five minutes later")
					expect.Equal(t, state(s), "closed", "breaker state")
					expect.Equal(t, log.Count("provider refuses a contract"), len(bad), "log lines about the contracts (%s)", log)
				})
			})
		}
	}
}

func TestRequestsForSingleContractsEndWithARateLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := addresses(50)
		provider := &selective{contracts: all[40:41], fault: status(http.StatusBadRequest)}
		var limited atomic.Bool
		var refused atomic.Int64
		limited.Store(true)
		s := openAlchemy(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if limited.Load() && len(provider.batches()) > 10 {
				refused.Add(1)
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			provider.ServeHTTP(w, r)
		}), metadata.Options{InFlight: 1})
		wantDescribed(t, s, all, 10, true)
		expect.Equal(t, refused.Load(), 1, "requests with status 429")
		limited.Store(false)
		time.Sleep(time.Minute)
		wantDescribed(t, s, all, 49, false)
	})
}

func TestContractThatBreaksConnectionIsIsolated(t *testing.T) {
	provider := &selective{contracts: []string{one}, fault: hijack("")}
	server := httptest.NewServer(provider)
	defer server.Close()
	s := open(t, "alchemy:"+server.URL+"/nft/v3/"+key, unhurried(metadata.Options{Failures: 1}))
	wantDescribed(t, s, append(addresses(20), one), 20, false)
	expect.Equal(t, state(s), "closed", "breaker state")
}

// A hanging batch is divided between other pages, not before them.
func TestPageDoesNotWaitForSplitOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := addresses(100)
		provider := &selective{contracts: all[10:11], fault: slow(time.Hour, status(http.StatusOK))}
		s := openAlchemy(t, provider, metadata.Options{Settings: metadata.Settings{Budget: 5 * time.Second}, InFlight: 1})
		lookup(t, s, two)
		s.Lookup(t.Context(), all)
		for i := range 3 {
			time.Sleep(time.Second) // the hanging requests end within the page's budget
			wantDescribed(t, s, addresses(110)[100+i:101+i], 1, false)
		}
	})
}

// The provider returns at most three contracts per request.
func TestContractMissingFromAnswerIsNotNegativelyCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &alchemy{}
		provider.fail(func(w http.ResponseWriter, _ *http.Request) {
			batches := provider.batches()
			last := batches[len(batches)-1]
			describe(w, len(batches), last[:min(3, len(last))])
		})
		s := openAlchemy(t, provider, metadata.Options{})
		wantDescribed(t, s, addresses(10), 10, false)
		expect.Equal(t, len(provider.batches()), 4, "requests")
	})
}

func TestContractsMissingTwiceHaveNoRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &alchemy{fault: text(`{"contracts":[]}`)}
		s := openAlchemy(t, provider, metadata.Options{})
		for range 2 {
			wantDescribed(t, s, addresses(50), 0, false)
			expect.Equal(t, len(provider.batches()), 2, "requests")
			synctest.Wait()
		}
	})
}

func TestDescriptionSurvivesFailures(t *testing.T) {
	for name, fault := range map[string]http.HandlerFunc{
		"an empty list":   text(`[]`),
		"no contract":     text(`[{"address":"` + one + `","tokenType":"NOT_A_CONTRACT"}]`),
		"a server error":  status(http.StatusInternalServerError),
		"a refusal":       status(http.StatusBadRequest),
		"an error object": text(`{"error":{"message":"no such contract"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				provider := &selective{fault: fault}
				s := openAlchemy(t, provider, metadata.Options{})
				lookup(t, s, one)
				provider.contracts = []string{one}
				for range 3 {
					time.Sleep(20 * day)
					for range 2 {
						wantName(t, s, one, "1", false)
					}
				}
				requests := len(provider.batches())
				time.Sleep(8 * time.Minute)
				lookup(t, s, one)
				settle()
				expect.Equal(t, len(provider.batches()), requests, "requests within ten minutes")
				provider.contracts = nil
				time.Sleep(day)
				lookup(t, s, one)
				settle()
				if name, _ := lookup(t, s, one); name == "1" {
					t.Error("name = 1 after the provider recovered, want the description read again")
				}
			})
		})
	}
}

func TestProviderOutageDuringSplitBatchBlamesNoContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, provider := &memory{}, &alchemy{}
		s := openAlchemy(t, provider, metadata.Options{Store: store, Failures: 1})
		lookup(t, s, one)
		provider.fail(slow(2*time.Second, status(http.StatusInternalServerError)))
		s.Lookup(t.Context(), addresses(50))
		time.Sleep(20 * time.Second) // the breaker is open for 30 s
		expect.Equal(t, len(store.keys()), 1, "records")
		expect.Equal(t, state(s), "open", "breaker state")
	})
}

func TestPageOfRefusedContractsIsNotAProviderFailure(t *testing.T) {
	for name, fault := range map[string]http.HandlerFunc{"refused": status(http.StatusBadRequest), "malformed": text(`<html>`)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := addresses(21)
				provider := &selective{contracts: all[:20], fault: fault}
				s := openAlchemy(t, provider, metadata.Options{Failures: 1})
				lookup(t, s, all[20])
				wantDescribed(t, s, all[:20], 0, false)
				synctest.Wait()
				expect.Equal(t, state(s), "closed", "breaker state")
			})
		})
	}
}

func TestProviderThatRefusesEverythingGetsFewRequests(t *testing.T) {
	for name, test := range map[string]struct {
		fault http.HandlerFunc
		state string
	}{
		"refused":   {status(http.StatusBadRequest), "failing"},
		"malformed": {text(`<html>`), "open"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &memory{}
				provider := &alchemy{fault: test.fault}
				s := openAlchemy(t, provider, metadata.Options{Store: store, Failures: 1})
				if _, degraded := s.Lookup(t.Context(), addresses(100)); !degraded {
					t.Error("page is not degraded, want it degraded")
				}
				synctest.Wait()
				if n := len(provider.batches()); n > 8 || state(s) != test.state || len(store.keys()) > 0 {
					t.Errorf("%d requests, breaker %s, %d records; want at most 8, %s and 0", n, state(s), len(store.keys()), test.state)
				}
			})
		})
	}
}

func TestOnchainMetadataIsBounded(t *testing.T) {
	long := strings.Repeat("é", 100_000)
	answer := expect.Value(json.Marshal(map[string]any{
		"address": one, "name": "x" + long, "symbol": "S", "totalSupply": strings.Repeat("9", 5000), "contractDeployer": long, "tokenType": long,
		"openSeaMetadata": map[string]any{"floorPrice": json.Number("1e999"), "description": long, "imageUrl": "data:image/svg+xml;base64," + strings.Repeat("PHN2Zz4", 600), "bannerImageUrl": "https://example.com/" + long, "externalUrl": "https://example.com/x", "collectionName": "short"},
	}))(t)
	s := openAlchemy(t, &alchemy{fault: text(`[` + string(answer) + `]`)}, unhurried(metadata.Options{}))
	found, degraded := s.Lookup(t.Context(), []string{one})
	var got map[string]any
	if err := json.Unmarshal(found[one], &got); err != nil || degraded {
		t.Fatalf("description = %s (%v), degraded %v; want JSON, not degraded", found[one], err, degraded)
	}
	cut := strings.Repeat("é", 2048)
	want := map[string]any{
		"address": one, "name": "x" + cut[:4094], "symbol": "S",
		"marketplaceMetadata": map[string]any{"description": cut, "externalUrl": "https://example.com/x", "collectionName": "short"},
	}
	expect.NoDiff(t, got, want, "metadata")
}

// All pages except the last have contracts that the provider refuses. The divided batches arrive faster than they are
// requested, but get only every second turn.
func TestSplitPagesDoNotStarveOtherPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pages, batch, request = 20, 50, 100 * time.Millisecond
		all := addresses((pages + 1) * batch)
		provider := &selective{fault: status(http.StatusBadRequest)}
		for i := range pages {
			provider.contracts = append(provider.contracts, all[i*batch+10], all[i*batch+40])
		}
		answer := inBubble(provider)
		s := open(t, "alchemy:https://example.invalid/nft/v3/"+key, metadata.Options{
			Settings: metadata.Settings{Budget: time.Hour},
			InFlight: 1, Batch: batch, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				time.Sleep(request)
				return answer.RoundTrip(r)
			}),
		})
		lookup(t, s, two)
		lookupPage := func(page, want int) { wantDescribed(t, s, all[page*batch:(page+1)*batch], want, false) }
		var waiting sync.WaitGroup
		for page := range pages {
			waiting.Go(func() { lookupPage(page, batch-2) })
			time.Sleep(3 * request)
			if n := len(provider.batches()); !slices.ContainsFunc(provider.batches(), func(b []string) bool { return b[0] == all[page*batch] }) {
				t.Errorf("page %d is not among the %d requested batches, want it there", page, n)
			}
		}
		began := time.Now()
		lookupPage(pages, batch)
		if took := time.Since(began); took > 3*request {
			t.Errorf("duration of a page without refused contracts = %v, want at most %v", took, 3*request)
		}
		waiting.Wait()
	})
}

// One contract may have a response that is too large. A provider whose responses have no end sends one for each address.
func TestProviderThatSendsWithoutEndIsDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &alchemy{fault: text(strings.Repeat(" ", 9<<20))}
		s := openAlchemy(t, provider, metadata.Options{Failures: 1})
		lookup(t, s, one)
		synctest.Wait()
		expect.Equal(t, state(s), "open", "breaker state")
	})
}
