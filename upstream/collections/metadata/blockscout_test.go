package metadata_test

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/expect"
)

// explorer answers paths, and others with 404.
func explorer(answers map[string]string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		answer, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
			answer = `{"message":"Not found"}`
		}
		w.Write([]byte(answer))
	}
}

func openBlockscout(t testing.TB, h http.Handler, o metadata.Options) *metadata.Service {
	t.Helper()
	o.Transport = inBubble(h)
	return open(t, "blockscout:https://explorer.invalid", o)
}

func TestBlockscoutAnswerForAnotherContractIsNotUsed(t *testing.T) {
	other := map[string]string{"/api/v2/tokens/" + one: `{"address_hash":"0x0000000000000000000000000000000000000001","name":"Other"}`}
	found, _ := openBlockscout(t, explorer(other), unhurried(metadata.Options{})).Lookup(t.Context(), []string{one})
	expect.Equal(t, string(found[one]), `{}`, "description")
}

func TestBlockscoutContractsHaveDocumentedForm(t *testing.T) {
	const (
		token       = "/api/v2/tokens/" + one
		address     = "/api/v2/addresses/" + one
		transaction = "/api/v2/transactions/0xfeed"
	)
	present := map[string]string{
		token: `{"address_hash":"0x0000000000000000000000000000000000000aBc","symbol":"IPA","name":"Assets","type":"ERC-721",
			"total_supply":"12","icon_url":"https://example.com/i.png","holders":"4"}`,
		address:     `{"creator_address_hash":"0xD1","creation_transaction_hash":"0xfeed","is_contract":true}`,
		transaction: `{"block_number":77}`,
	}
	older := map[string]string{
		token:       `{"address":"0x0000000000000000000000000000000000000ABC","symbol":"IPA","name":"Assets","type":"ERC-1155","total_supply":null,"icon_url":null}`,
		address:     `{"creator_address_hash":"0xD1","creation_tx_hash":"0xfeed"}`,
		transaction: `{"block":78}`,
	}
	without := func(answers map[string]string, path string) map[string]string {
		fewer := maps.Clone(answers)
		delete(fewer, path)
		return fewer
	}
	tests := map[string]struct {
		answers map[string]string
		want    string
	}{
		"all fields": {present, `{"chain":"story","address":"0x0000000000000000000000000000000000000aBc","name":"Assets","symbol":"IPA","totalSupply":"12","tokenType":"ERC721",` +
			`"contractDeployer":"0xD1","deployedBlockNumber":77,"marketplaceMetadata":{"imageUrl":"https://example.com/i.png"}}`},
		"older field names": {older, `{"chain":"story","address":"0x0000000000000000000000000000000000000ABC","name":"Assets","symbol":"IPA","tokenType":"ERC1155",` +
			`"contractDeployer":"0xD1","deployedBlockNumber":78,"marketplaceMetadata":{}}`},
		"no block if the transaction is unknown": {without(older, transaction), `{"chain":"story","address":"0x0000000000000000000000000000000000000ABC","name":"Assets","symbol":"IPA","tokenType":"ERC1155",` +
			`"contractDeployer":"0xD1","marketplaceMetadata":{}}`},
		"no deployer if the address is unknown": {without(older, address), `{"chain":"story","address":"0x0000000000000000000000000000000000000ABC","name":"Assets","symbol":"IPA","tokenType":"ERC1155",` +
			`"marketplaceMetadata":{}}`},
		"{} if the token is unknown": {without(present, token), `{}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := openBlockscout(t, explorer(test.answers), unhurried(metadata.Options{Chain: "story"}))
			found, degraded := s.Lookup(t.Context(), []string{one})
			expect.NoDiff(t, string(found[one]), test.want, "description")
			expect.Equal(t, degraded, false, "degraded")
		})
	}
}

func TestBlockscoutGetsFourConcurrentRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var now, most atomic.Int64
		s := openBlockscout(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			if strings.HasPrefix(r.URL.Path, "/api/v2/tokens/") {
				time.Sleep(200 * time.Millisecond)
				fmt.Fprint(w, `{"name":"x"}`)
			} else {
				w.WriteHeader(http.StatusNotFound)
			}
		}), metadata.Options{Settings: metadata.Settings{Budget: 500 * time.Millisecond}})
		wantDescribed(t, s, addresses(20), 8, true)
		expect.Equal(t, most.Load(), 4, "requests at the same time")
		time.Sleep(time.Second)
		wantDescribed(t, s, addresses(20), 20, false)
	})
}

func TestFailingContractOfBlockscoutDoesNotAffectOthers(t *testing.T) {
	s := openBlockscout(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, one) {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		explorer(map[string]string{"/api/v2/tokens/" + two: `{"name":"two"}`})(w, r)
	}), unhurried(metadata.Options{Failures: 1}))
	wantNames(t, s, []string{one, two}, map[string]string{one: "", two: "two"}, false)
	expect.Equal(t, state(s), "closed", "breaker state")
}

func TestBlockscoutContractIsReadAgainAfter429ForItsDeployment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limited := true
		s := openBlockscout(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if limited && strings.HasPrefix(r.URL.Path, "/api/v2/addresses/") {
				w.WriteHeader(http.StatusTooManyRequests)
				return
			}
			explorer(map[string]string{"/api/v2/tokens/" + one: `{"name":"one"}`, "/api/v2/addresses/" + one: `{"creator_address_hash":"0xdeployer"}`})(w, r)
		}), metadata.Options{})
		if found, degraded := s.Lookup(t.Context(), []string{one}); string(found[one]) != "{}" || !degraded {
			t.Errorf("Lookup = %s, degraded %t, want {}, true", found[one], degraded)
		}
		expect.Equal(t, state(s), "rate_limited", "provider state")
		limited = false
		time.Sleep(time.Minute)
		found, _ := s.Lookup(t.Context(), []string{one})
		expect.Contains(t, string(found[one]), "0xdeployer", "description a minute later")
	})
}

// A 429 for one contract, and the end of the program, cancel the requests for others.
func TestBlockscoutContractIsReadAgainAfterItsDeploymentWasCanceled(t *testing.T) {
	answers := explorer(map[string]string{"/api/v2/tokens/" + one: `{"name":"one"}`, "/api/v2/addresses/" + one: `{"creator_address_hash":"0xdeployer"}`})
	for name, page := range map[string][]string{"429 for another contract": {one, two}, "end of the program": {one}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				store := &memory{}
				s := openBlockscout(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					switch r.URL.Path {
					case "/api/v2/addresses/" + one:
						slow(time.Second, answers)(w, r)
					case "/api/v2/tokens/" + two:
						slow(500*time.Millisecond, status(http.StatusTooManyRequests))(w, r)
					default:
						answers(w, r)
					}
				}), metadata.Options{Store: store})
				s.Lookup(t.Context(), page)
				time.Sleep(100 * time.Millisecond)
				expect.NoError(t, s.Close())
				expect.Equal(t, len(store.keys()), 0, "records")
			})
		})
	}
}

// The time of a batch ends while some of its contracts are read. They are read again, alone.
func TestBlockscoutContractsAreReadCompletelyAfterBatchTookTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := openBlockscout(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasPrefix(r.URL.Path, "/api/v2/tokens/") {
				fmt.Fprint(w, `{"name":"x"}`)
			} else {
				slow(900*time.Millisecond, text(`{"creator_address_hash":"0xdeployer"}`))(w, r)
			}
		}), metadata.Options{Settings: metadata.Settings{Budget: time.Minute}})
		found, _ := s.Lookup(t.Context(), addresses(30))
		for address, description := range found {
			expect.Contains(t, string(description), "0xdeployer", "description of %s", address)
		}
	})
}

func TestBlockscoutGetsNoRequestsAfter429(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var requests atomic.Int64
		s := openBlockscout(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			requests.Add(1)
			w.WriteHeader(http.StatusTooManyRequests)
		}), metadata.Options{})
		for range 3 {
			if _, degraded := s.Lookup(t.Context(), addresses(100)); !degraded {
				t.Error("page is not degraded, want it degraded")
			}
		}
		if n := requests.Load(); n > 8 {
			t.Errorf("requests = %d, want at most 8", n)
		}
		expect.Equal(t, state(s), "rate_limited", "provider state")
	})
}
