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
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/expect"
)

// poisoned is an Alchemy that answers batches with one of the contracts in a way
// of its own.
type poisoned struct {
	alchemy
	contracts []string
	with      http.HandlerFunc
}

func (p *poisoned) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	if slices.ContainsFunc(p.contracts, func(a string) bool { return bytes.Contains(body, []byte(a)) }) {
		p.answer(w, r, p.with)
	} else {
		p.answer(w, r, nil)
	}
}

func TestFailingContractDoesNotAffectOthersInBatch(t *testing.T) {
	ways := map[string]http.HandlerFunc{
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
	for name, way := range ways {
		for _, bad := range [][]string{all[17:18], {all[0], all[25], all[49]}} {
			t.Run("a batch that is "+name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					provider := &poisoned{contracts: bad, with: way}
					log := &logged{}
					s := open(t, "alchemy:https://example.invalid/nft/v3/"+key, metadata.Options{
						Transport: inBubble(provider), Failures: 1, Logger: log.logger(),
					})
					page := func() {
						t.Helper()
						found, degraded := s.Lookup(t.Context(), all)
						if n := described(found); n != 50-len(bad) || degraded {
							t.Errorf("%d of 50 are described, degraded %v", n, degraded)
						}
					}
					s.Lookup(t.Context(), all)
					time.Sleep(2 * time.Minute) // what hangs is found last
					asked := len(provider.batches())
					if most := 1 + (2*6+1)*len(bad) + 7; asked > most {
						t.Errorf("%d requests, %d are enough to find %d", asked, most, len(bad))
					}
					page()
					time.Sleep(5 * time.Minute)
					page() // what was refused is remembered
					synctest.Wait()
					if again := len(provider.batches()); again != asked || state(s) != "closed" {
						t.Errorf("%d more requests, the breaker is %s", again-asked, state(s))
					}
					expect.Equal(t, strings.Count(log.String(), "provider refuses these"), 1, "log lines about it (%s)", log)
				})
			})
		}
	}
}

// The faults of a connection, through one.
func TestContractThatBreaksConnectionIsIsolated(t *testing.T) {
	provider := &poisoned{contracts: []string{one}, with: hijack("")}
	server := httptest.NewServer(provider)
	defer server.Close()
	s := open(t, "alchemy:"+server.URL+"/nft/v3/"+key, unhurried(metadata.Options{Failures: 1}))
	found, degraded := s.Lookup(t.Context(), append(addresses(20), one))
	if n := described(found); n != 20 || degraded || state(s) != "closed" {
		t.Errorf("%d of 20 are described, degraded %v, the provider is %s", n, degraded, state(s))
	}
}

// A batch that hangs is divided between other pages, not before them.
func TestPageDoesNotWaitForSplitOfAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		all := addresses(100)
		provider := &poisoned{contracts: all[10:11], with: slow(time.Hour, status(http.StatusOK))}
		s := open(t, "alchemy:https://example.invalid/nft/v3/"+key, metadata.Options{
			Transport: inBubble(provider), InFlight: 1, Budget: 5 * time.Second,
		})
		lookup(t, s, two)
		s.Lookup(t.Context(), all)
		for i := range 3 {
			time.Sleep(time.Second) // so that what hangs ends within the page's budget
			if name, degraded := lookup(t, s, addresses(110)[100+i]); name == "" || degraded {
				t.Errorf("another page has %q, degraded %v, while the batch is divided", name, degraded)
			}
		}
	})
}

// The provider lists at most three of the contracts that it is asked for.
func TestContractMissingFromAnswerIsNotNegativelyCached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &alchemy{}
		provider.fail(func(w http.ResponseWriter, _ *http.Request) {
			batches := provider.batches()
			last := batches[len(batches)-1]
			describe(w, len(batches), last[:min(3, len(last))])
		})
		s := openAlchemy(t, provider, metadata.Options{})
		found, degraded := s.Lookup(t.Context(), addresses(10))
		if n := described(found); n != 10 || degraded || len(provider.batches()) != 4 {
			t.Errorf("%d of 10 are described after %d requests, degraded %v", n, len(provider.batches()), degraded)
		}
	})
}

func TestContractsMissingTwiceHaveNoRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &alchemy{fault: text(`{"contracts":[]}`)}
		s := openAlchemy(t, provider, metadata.Options{})
		for range 2 {
			found, degraded := s.Lookup(t.Context(), addresses(50))
			if n := described(found); n != 0 || degraded || len(provider.batches()) != 2 {
				t.Errorf("%d are described after %d requests, degraded %v", n, len(provider.batches()), degraded)
			}
			synctest.Wait()
		}
	})
}

func TestDescriptionSurvivesFailures(t *testing.T) {
	for name, none := range map[string]http.HandlerFunc{
		"an empty list":   text(`[]`),
		"no contract":     text(`[{"address":"` + one + `","tokenType":"NOT_A_CONTRACT"}]`),
		"a server error":  status(http.StatusInternalServerError),
		"a refusal":       status(http.StatusBadRequest),
		"another's error": text(`{"error":{"message":"no such contract"}}`),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				provider := &poisoned{with: none}
				s := open(t, "alchemy:https://example.invalid/nft/v3/"+key, metadata.Options{Transport: inBubble(provider)})
				lookup(t, s, one)
				provider.contracts = []string{one}
				for range 3 {
					time.Sleep(20 * day)
					for range 2 {
						if name, degraded := lookup(t, s, one); name != "1" || degraded {
							t.Errorf("%q, degraded %v", name, degraded)
						}
					}
				}
				asked := len(provider.batches())
				time.Sleep(8 * time.Minute)
				lookup(t, s, one)
				synctest.Wait()
				if again := len(provider.batches()); again != asked {
					t.Errorf("%d requests more within ten minutes", again-asked)
				}
				provider.contracts = nil
				time.Sleep(day)
				lookup(t, s, one)
				synctest.Wait()
				if name, _ := lookup(t, s, one); name == "1" {
					t.Error("description was not read again")
				}
			})
		})
	}
}

func TestProviderOutageDuringSplitBatchBlamesNoContract(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, provider := &memory{}, &alchemy{}
		s := openAlchemy(t, provider, metadata.Options{Store: store, Failures: 1, Cooldown: time.Hour})
		lookup(t, s, one)
		provider.fail(slow(2*time.Second, status(http.StatusInternalServerError)))
		s.Lookup(t.Context(), addresses(50))
		time.Sleep(10 * time.Minute)
		if n := len(store.keys()); n != 1 || state(s) != "open" {
			t.Errorf("%d records, the breaker is %s", n, state(s))
		}
	})
}

func TestPageOfRefusedContractsIsNoFailureOfTheProvider(t *testing.T) {
	for name, way := range map[string]http.HandlerFunc{"refused": status(http.StatusBadRequest), "malformed": text(`<html>`)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := addresses(21)
				provider := &poisoned{contracts: all[:20], with: way}
				s := open(t, "alchemy:https://example.invalid/nft/v3/"+key, metadata.Options{Transport: inBubble(provider), Failures: 1})
				lookup(t, s, all[20])
				found, degraded := s.Lookup(t.Context(), all[:20])
				synctest.Wait()
				if n := described(found); n != 0 || degraded || state(s) != "closed" {
					t.Errorf("%d are described, degraded %v, breaker %s", n, degraded, state(s))
				}
			})
		})
	}
}

func TestProviderThatRefusesEverythingGetsFewRequests(t *testing.T) {
	for name, test := range map[string]struct {
		way   http.HandlerFunc
		state string
	}{
		"refused":   {status(http.StatusBadRequest), "failing"},
		"malformed": {text(`<html>`), "open"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &memory{}
				provider := &alchemy{fault: test.way}
				s := openAlchemy(t, provider, metadata.Options{Store: store, Failures: 1})
				if _, degraded := s.Lookup(t.Context(), addresses(100)); !degraded {
					t.Error("page is not degraded, want it degraded")
				}
				synctest.Wait()
				if n := len(provider.batches()); n > 8 || state(s) != test.state || len(store.keys()) > 0 {
					t.Errorf("%d requests, breaker %s, %d records", n, state(s), len(store.keys()))
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
		t.Fatalf("%v, degraded %v", err, degraded)
	}
	cut := strings.Repeat("é", 2048)
	want := map[string]any{
		"address": one, "name": "x" + cut[:4094], "symbol": "S",
		"marketplaceMetadata": map[string]any{"description": cut, "externalUrl": "https://example.com/x", "collectionName": "short"},
	}
	expect.NoDiff(t, got, want, "metadata")
}

// Every page but the last has contracts that the provider refuses. What their batches are divided into grows
// faster than it is asked for, and costs the others every second turn.
func TestSplitPagesDoNotStarveOtherPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const pages, batch, request = 20, 50, 100 * time.Millisecond
		all := addresses((pages + 1) * batch)
		provider := &poisoned{with: status(http.StatusBadRequest)}
		for i := range pages {
			provider.contracts = append(provider.contracts, all[i*batch+10], all[i*batch+40])
		}
		answer := inBubble(provider)
		s := open(t, "alchemy:https://example.invalid/nft/v3/"+key, metadata.Options{
			InFlight: 1, Batch: batch, Budget: time.Hour, Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				time.Sleep(request)
				return answer.RoundTrip(r)
			}),
		})
		lookup(t, s, two)
		mustDescribe := func(page, want int) {
			found, degraded := s.Lookup(t.Context(), all[page*batch:(page+1)*batch])
			if n := described(found); n != want || degraded {
				t.Errorf("page %d: %d of %d are described, degraded %v", page, n, batch, degraded)
			}
		}
		var waiting sync.WaitGroup
		for page := range pages {
			waiting.Go(func() { mustDescribe(page, batch-2) })
			time.Sleep(3 * request)
			if n := len(provider.batches()); !slices.ContainsFunc(provider.batches(), func(b []string) bool { return b[0] == all[page*batch] }) {
				t.Errorf("page %d is not among the %d batches that were asked for", page, n)
			}
		}
		began := time.Now()
		mustDescribe(pages, batch)
		if took := time.Since(began); took > 3*request {
			t.Errorf("a page that all is well with waits for %v", took)
		}
		waiting.Wait()
	})
}
