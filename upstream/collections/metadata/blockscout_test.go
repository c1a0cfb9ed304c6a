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

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/expect"
)

// explorer answers the paths; the others are 404.
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
		"with everything": {present, `{"chain":"story","address":"0x0000000000000000000000000000000000000aBc","name":"Assets","symbol":"IPA","totalSupply":"12","tokenType":"ERC721",` +
			`"contractDeployer":"0xD1","deployedBlockNumber":77,"marketplaceMetadata":{"imageUrl":"https://example.com/i.png"}}`},
		"under the older names": {older, `{"chain":"story","address":"0x0000000000000000000000000000000000000ABC","name":"Assets","symbol":"IPA","tokenType":"ERC1155",` +
			`"contractDeployer":"0xD1","deployedBlockNumber":78,"marketplaceMetadata":{}}`},
		"without a block when the transaction is unknown": {without(older, transaction), `{"chain":"story","address":"0x0000000000000000000000000000000000000ABC","name":"Assets","symbol":"IPA","tokenType":"ERC1155",` +
			`"contractDeployer":"0xD1","marketplaceMetadata":{}}`},
		"without a deployer when the address is unknown": {without(older, address), `{"chain":"story","address":"0x0000000000000000000000000000000000000ABC","name":"Assets","symbol":"IPA","tokenType":"ERC1155",` +
			`"marketplaceMetadata":{}}`},
		"as {} when the token is unknown": {without(present, token), `{}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := openBlockscout(t, explorer(test.answers), unhurried(metadata.Options{Chain: "story"}))
			found, degraded := s.Lookup(t.Context(), []string{one})
			if diff := cmp.Diff(test.want, string(found[one])); diff != "" || degraded {
				t.Errorf("degraded %v, -want +got:\n%s", degraded, diff)
			}
		})
	}
}

func TestBlockscoutIsAskedForFourContractsAtATimeAndThePageHasThoseInTime(t *testing.T) {
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
		}), metadata.Options{Budget: 500 * time.Millisecond})
		found, degraded := s.Lookup(t.Context(), addresses(20))
		if n := described(found); n != 8 || !degraded {
			t.Errorf("%d contracts in two rounds of 200 ms, degraded %v", n, degraded)
		}
		expect.Equal(t, most.Load(), 4, "requests at the same time")
		time.Sleep(time.Second)
		found, degraded = s.Lookup(t.Context(), addresses(20))
		if n := described(found); n != 20 || degraded {
			t.Errorf("%d contracts later, degraded %v", n, degraded)
		}
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
	found, degraded := s.Lookup(t.Context(), []string{one, two})
	if diff := cmp.Diff(map[string]string{one: "", two: "two"}, names(t, found)); diff != "" || degraded {
		t.Errorf("degraded %v, -want +got:\n%s", degraded, diff)
	}
	expect.Equal(t, state(s), "closed", "breaker state")
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
			t.Errorf("%d requests after the first 429", n)
		}
		expect.Equal(t, state(s), "rate_limited", "provider state")
	})
}
