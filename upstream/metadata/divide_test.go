package metadata_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/upstream/metadata"
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
		p.fail(p.with)
	} else {
		p.fail(nil)
	}
	p.alchemy.ServeHTTP(w, r)
}

func TestOneContractDoesNotTakeMetadataFromItsNeighbours(t *testing.T) {
	ways := map[string]http.HandlerFunc{
		"refused":   status(http.StatusBadRequest),
		"too large": text(`{"contracts":[],"x":"` + strings.Repeat("x", 8<<20) + `"}`),
		"malformed": text(`{"contracts":[{"name":"\u00`),
		"an error":  text(`{"error":{"message":"cannot describe"}}`),
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
					page()
					asked := len(provider.batches())
					if most := 1 + 2*6*len(bad); asked > most {
						t.Errorf("%d requests, %d are enough to find %d", asked, most, len(bad))
					}
					synctest.Wait()
					page() // what was refused is remembered
					if again := len(provider.batches()); again != asked || s.State() != "closed" {
						t.Errorf("%d more requests, the breaker is %s", again-asked, s.State())
					}
					if n := strings.Count(log.String(), "the provider refuses them"); n != 1 {
						t.Errorf("told of %d times: %s", n, log)
					}
				})
			})
		}
	}
}

func TestAPageOfRefusedContractsIsNoFailureOfTheProvider(t *testing.T) {
	for name, way := range map[string]http.HandlerFunc{"refused": status(http.StatusBadRequest), "malformed": text(`<html>`)} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				all := addresses(21)
				provider := &poisoned{contracts: all[:20], with: way}
				s := open(t, "alchemy:https://example.invalid/nft/v3/"+key, metadata.Options{Transport: inBubble(provider), Failures: 1})
				lookup(t, s, all[20])
				found, degraded := s.Lookup(t.Context(), all[:20])
				synctest.Wait()
				if n := described(found); n != 0 || degraded || s.State() != "closed" {
					t.Errorf("%d are described, degraded %v, breaker %s", n, degraded, s.State())
				}
			})
		})
	}
}

func TestAProviderThatRefusesEverythingIsAskedLittleAndNotBelieved(t *testing.T) {
	for name, test := range map[string]struct {
		way   http.HandlerFunc
		state string
	}{
		"refused":   {status(http.StatusBadRequest), "closed"},
		"malformed": {text(`<html>`), "open"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &memory{}
				provider := &alchemy{fault: test.way}
				s := openAlchemy(t, provider, metadata.Options{Store: store, Failures: 1})
				if _, degraded := s.Lookup(t.Context(), addresses(100)); !degraded {
					t.Error("the page is not degraded")
				}
				synctest.Wait()
				if n := len(provider.batches()); n > 8 || s.State() != test.state || len(store.keys()) > 0 {
					t.Errorf("%d requests, breaker %s, %d records", n, s.State(), len(store.keys()))
				}
			})
		})
	}
}

func TestARefusedContractKeepsItsDescription(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		provider := &poisoned{with: status(http.StatusBadRequest)}
		s := open(t, "alchemy:https://example.invalid/nft/v3/"+key, metadata.Options{Transport: inBubble(provider)})
		lookup(t, s, one)
		provider.contracts = []string{one}
		for range 3 {
			time.Sleep(20 * day)
			if name, degraded := lookup(t, s, one); name != "1" || degraded {
				t.Errorf("%q, degraded %v", name, degraded)
			}
			lookup(t, s, two)
		}
	})
}

func TestWhatAContractSaysOfItselfIsBounded(t *testing.T) {
	long := strings.Repeat("é", 100_000)
	answer, err := json.Marshal(map[string]any{
		"address": one, "name": "x" + long, "symbol": "S", "totalSupply": strings.Repeat("9", 5000), "contractDeployer": long, "tokenType": long,
		"openSeaMetadata": map[string]any{"floorPrice": json.Number("1e999"), "description": long, "imageUrl": long, "collectionName": "short"},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := openAlchemy(t, &alchemy{fault: text(`[` + string(answer) + `]`)}, unhurried(metadata.Options{}))
	found, degraded := s.Lookup(t.Context(), []string{one})
	var got map[string]any
	if err := json.Unmarshal(found[one], &got); err != nil || degraded {
		t.Fatalf("%v, degraded %v", err, degraded)
	}
	cut := strings.Repeat("é", 2048)
	want := map[string]any{
		"address": one, "name": "x" + cut[:4094], "symbol": "S", "contractDeployer": cut, "tokenType": cut,
		"marketplaceMetadata": map[string]any{"description": cut, "imageUrl": cut, "collectionName": "short"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
