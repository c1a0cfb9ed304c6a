package proxy_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream/collections"
)

const wowMetadata = `{"chain":"story-mainnet","address":"0xe785E82358879F061BC3dcAC6f0444462D4b5330","name":"World <of> Women","symbol":"WOW","totalSupply":"10000","tokenType":"ERC721","contractDeployer":"0xc9b6321dc216D91E626E9BAA61b06B0E4d55bdb1","deployedBlockNumber":12907782,"marketplaceMetadata":{"floorPrice":0.4249989,"collectionName":"World of Women","externalUrl":null}}`

// describer knows these collections, and is well.
type describer map[string]string

func (d describer) Lookup(_ context.Context, addresses []string) (map[string]json.RawMessage, bool) {
	found := map[string]json.RawMessage{}
	for _, a := range addresses {
		found[a] = json.RawMessage("{}")
		if known, ok := d[a]; ok {
			found[a] = json.RawMessage(known)
		}
	}
	return found, false
}

// sickDescriber is late, and knows nothing until it is healed.
type sickDescriber struct {
	calls  atomic.Int64
	healed atomic.Bool
	budget time.Duration
}

func (d *sickDescriber) Lookup(ctx context.Context, addresses []string) (map[string]json.RawMessage, bool) {
	d.calls.Add(1)
	if d.healed.Load() {
		return describer{strings.ToLower(wow): wowMetadata}.Lookup(ctx, addresses)
	}
	time.Sleep(d.budget)
	return nil, true
}

// described returns collectionMetadata of the only collection on a page.
func described(t *testing.T, body string) string {
	t.Helper()
	var page struct {
		Data []struct{ CollectionMetadata json.RawMessage }
	}
	if err := json.Unmarshal([]byte(body), &page); err != nil || len(page.Data) != 1 {
		t.Fatalf("%v in %s", err, body)
	}
	return string(page.Data[0].CollectionMetadata)
}

func TestMetadataComesFromWhoeverHasIt(t *testing.T) {
	const own = `{"name":"the store's"}`
	for name, tc := range map[string]struct {
		provider listing.MetadataProvider
		own      string
		want     string
	}{
		"the provider's":                                {describer{strings.ToLower(wow): wowMetadata}, "", wowMetadata},
		"the provider's before the store's":             {describer{strings.ToLower(wow): wowMetadata}, own, wowMetadata},
		"the store's where the provider has no record":  {describer{}, own, own},
		"the store's where there is no provider":        {nil, own, own},
		"nobody's is empty":                             {describer{}, "", `{}`},
		"nobody's without a provider is empty":          {nil, "", `{}`},
		"what is broken is empty":                       {describer{strings.ToLower(wow): `{"name":`}, `null`, `{}`},
		"a failing provider leaves the store's":         {&sickDescriber{}, own, own},
		"a failing provider and nothing of the store's": {&sickDescriber{}, "", `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := startList(t, listing.Options{Metadata: tc.provider})
			c := worldOfWomen()
			c.Metadata = json.RawMessage(tc.own)
			s.store.hold(c)
			res, body := s.post(t, `{}`)
			if res.StatusCode != http.StatusOK {
				t.Fatalf("status %d: %s", res.StatusCode, body)
			}
			if diff := cmp.Diff(tc.want, described(t, body)); diff != "" {
				t.Errorf("metadata (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMetadataIsLookedUpInLowerCaseOnceAPage(t *testing.T) {
	asked := make(chan []string, 10)
	s := startList(t, listing.Options{Metadata: lookupFunc(func(addresses []string) { asked <- addresses })})
	s.store.hold(worldOfWomen(), collections.Collection{Address: other})
	s.post(t, `{}`)
	s.post(t, `{}`)
	if diff := cmp.Diff([]string{strings.ToLower(wow), other}, <-asked); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if n := len(asked); n > 0 {
		t.Errorf("%d lookups more than pages read", n)
	}
}

type lookupFunc func(addresses []string)

func (f lookupFunc) Lookup(_ context.Context, addresses []string) (map[string]json.RawMessage, bool) {
	f(addresses)
	return nil, false
}

func TestDegradedPageIsKeptBriefly(t *testing.T) {
	t.Parallel()
	provider := &sickDescriber{budget: 20 * time.Millisecond}
	s := startList(t, listing.Options{Metadata: provider, DegradedTTL: 4 * time.Second})
	for range 3 {
		res, body := s.post(t, `{}`)
		if got := described(t, body); res.StatusCode != http.StatusOK || got != `{}` {
			t.Fatalf("status %d, metadata %s", res.StatusCode, got)
		}
	}
	if got := provider.calls.Load(); got != 1 {
		t.Errorf("%d lookups for a page that is kept", got)
	}
	provider.healed.Store(true)
	eventually(t, "it is described after its time", func() bool {
		_, body := s.post(t, `{}`)
		return described(t, body) == wowMetadata
	})
}
