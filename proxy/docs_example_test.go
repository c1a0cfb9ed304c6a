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

// exampleFile is a file of docs/examples/, whose members stand in this order.
type exampleFile struct {
	Request json.RawMessage `json:"request"`
	Answer  json.RawMessage `json:"answer,omitempty"`
}

// TestExamplesAreTheRecordedAnswers asks each example's request of the recorded
// chain, or of a store with one collection.
func TestExamplesAreTheRecordedAnswers(t *testing.T) {
	chain := startChain(t, proxy.Options{})
	list := startList(t, listing.Options{Metadata: describer{strings.ToLower(wow): exampleMetadata}})
	shown := worldOfWomen()
	shown.AssetCount = 1204
	list.store.hold(shown)
	var ids []string
	for _, op := range readDescription(t, list.Config.Handler).operations() {
		ids = append(ids, op.id)
	}
	for _, id := range ids {
		t.Run(id, func(t *testing.T) {
			path := filepath.Join("docs", "examples", id+".json")
			text := expect.Value(os.ReadFile(path))(t)
			var e exampleFile
			expect.NoError(t, json.Unmarshal(text, &e))
			e.Answer = answerTo(t, chain, list, e.Request)
			want := e.text(t)
			if *update {
				expect.NoError(t, os.WriteFile(path, want, 0o644))
			}
			expect.NoDiff(t, string(text), string(want), "file (-update writes it)")
		})
	}
	if files, err := os.ReadDir(filepath.Join("docs", "examples")); err != nil || len(files) != len(ids) {
		t.Errorf("%d examples of %d operations: %v", len(files), len(ids), err)
	}
}

// exampleMetadata has all that is documented.
const exampleMetadata = `{"chain":"story-mainnet","address":"` + wow + `","name":"World of Women","symbol":"WOW","totalSupply":"10000",` +
	`"tokenType":"ERC721","contractDeployer":"0xc9b6321dc216D91E626E9BAA61b06B0E4d55bdb1","deployedBlockNumber":12907782,` +
	`"marketplaceMetadata":{"floorPrice":0.4249989,"collectionName":"World of Women","collectionSlug":"world-of-women-nft",` +
	`"safelistRequestStatus":"verified","imageUrl":"https://example.com/image.png","description":"A collection of 10,000.",` +
	`"externalUrl":"https://example.com","twitterUsername":"example","discordUrl":"https://example.com/discord",` +
	`"bannerImageUrl":"https://example.com/banner.png","lastIngestedAt":"2025-05-06T07:00:00.000Z"}}`

// answerTo is nil for what was never recorded.
func answerTo(t *testing.T, chain *chainService, list *listService, request json.RawMessage) json.RawMessage {
	t.Helper()
	var target string
	if json.Unmarshal(request, &target) != nil {
		res, body := list.post(t, string(request))
		if res.StatusCode != http.StatusOK {
			t.Fatalf("status %d: %s", res.StatusCode, body)
		}
		return json.RawMessage(body)
	}
	got := chain.get(t, target)
	switch {
	case got.status == http.StatusOK:
		return json.RawMessage(got.body)
	case strings.Contains(got.body, "404 page not found"):
		return nil
	default:
		t.Fatalf("status %d: %s", got.status, got.body)
		return nil
	}
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
