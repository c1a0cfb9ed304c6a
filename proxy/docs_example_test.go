package proxy_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/upstream/expect"
)

// exampleFile is a file of docs/examples/ with its members in this order.
type exampleFile struct {
	Request json.RawMessage `json:"request"`
	Answer  json.RawMessage `json:"answer,omitempty"`
}

// Each example's request is sent to the recorded chain, or to a store with one collection.
func TestExamplesEqualTheResponses(t *testing.T) {
	chain := startChain(t, proxy.Options{})
	list := startList(t, listing.Options{Metadata: fakeProvider{strings.ToLower(wow): exampleMetadata}})
	example := worldOfWomen()
	example.AssetCount = 1204
	list.store.setCollections(example)
	operations := readContract(t, list.Config.Handler).operations()
	for _, op := range operations {
		t.Run(op.id, func(t *testing.T) {
			path := filepath.Join("docs", "examples", op.id+".json")
			text := expect.Value(os.ReadFile(path))(t)
			var e exampleFile
			expect.NoError(t, json.Unmarshal(text, &e))
			e.Answer = exampleAnswer(t, chain, list, e.Request)
			want := e.text(t)
			if *update {
				expect.NoError(t, os.WriteFile(path, want, 0o644))
			}
			expect.NoDiff(t, string(text), string(want), "file (-update writes it)")
		})
	}
	files := expect.Value(os.ReadDir(filepath.Join("docs", "examples")))(t)
	expect.Equal(t, len(files), len(operations), "files in docs/examples, one for each operation")
}

// exampleMetadata has every documented member.
const exampleMetadata = `{"chain":"story-mainnet","address":"` + wow + `","name":"World of Women","symbol":"WOW","totalSupply":"10000",` +
	`"tokenType":"ERC721","contractDeployer":"0xc9b6321dc216D91E626E9BAA61b06B0E4d55bdb1","deployedBlockNumber":12907782,` +
	`"marketplaceMetadata":{"floorPrice":0.4249989,"collectionName":"World of Women","collectionSlug":"world-of-women-nft",` +
	`"safelistRequestStatus":"verified","imageUrl":"https://example.com/image.png","description":"A collection of 10,000.",` +
	`"externalUrl":"https://example.com","twitterUsername":"example","discordUrl":"https://example.com/discord",` +
	`"bannerImageUrl":"https://example.com/banner.png","lastIngestedAt":"2025-05-06T07:00:00.000Z"}}`

// exampleAnswer returns the response to an example's request, nil if none was recorded.
func exampleAnswer(t *testing.T, chain *chainService, list *listService, request json.RawMessage) json.RawMessage {
	t.Helper()
	var target string
	if json.Unmarshal(request, &target) != nil {
		res, body := list.post(t, string(request))
		expect.Response(t, "the listing", res.StatusCode, body, http.StatusOK)
		return json.RawMessage(body)
	}
	got := chain.get(t, target)
	if strings.Contains(got.body, "404 page not found") {
		return nil
	}
	got.expect(t, http.StatusOK)
	return json.RawMessage(got.body)
}

func (e exampleFile) text(t *testing.T) []byte {
	t.Helper()
	var b bytes.Buffer
	w := json.NewEncoder(&b)
	w.SetEscapeHTML(false)
	w.SetIndent("", "  ")
	expect.NoError(t, w.Encode(e))
	return b.Bytes()
}
