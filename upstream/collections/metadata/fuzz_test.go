package metadata_test

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/expect"
)

// emptyStore is a Store that stays empty, so that every page reads the provider.
type emptyStore struct{}

func (emptyStore) Load(context.Context, []string) map[string]metadata.Record { return nil }
func (emptyStore) Save(context.Context, map[string]metadata.Record)          {}

func FuzzAlchemy(f *testing.F) {
	files, err := filepath.Glob("testdata/alchemy_*.json")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	for _, file := range files {
		seed := expect.Value(os.ReadFile(file))(f)
		f.Add(strings.ReplaceAll(string(seed), "0xe785E82358879F061BC3dcAC6f0444462D4b5330", one))
	}
	f.Add(`{"error":{"message":"no"}}`)
	f.Add(`[null,{}]`)
	fuzz(f, "alchemy")
}

func FuzzBlockscout(f *testing.F) {
	f.Add(`{"address_hash":"` + one + `","name":"n","type":"ERC-721","total_supply":"1","creator_address_hash":"0x1","creation_transaction_hash":"0x2","block_number":3}`)
	f.Add(`{"address":"` + one + `","symbol":"s","creation_tx_hash":"../..","block":3}`)
	f.Add(`{"message":"Not found"}`)
	fuzz(f, "blockscout")
}

// fuzz answers each request with the same body, and checks that the page has a documented description or {}.
func fuzz(f *testing.F, provider string) {
	var body atomic.Value
	s := open(f, provider+":https://host/"+key, metadata.Options{
		Settings: metadata.Settings{Budget: 4 * time.Second},
		Store:    emptyStore{}, Chain: "story", Failures: 1 << 30, Transport: inBubble(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Write([]byte(body.Load().(string)))
		})),
	})
	f.Fuzz(func(t *testing.T, answer string) {
		body.Store(answer)
		found, _ := s.Lookup(t.Context(), []string{one})
		wantDocumented(t, found[one])
	})
}

// wantDocumented fails the test unless the description is {} or has the documented members and types.
func wantDocumented(t *testing.T, description []byte) {
	t.Helper()
	if string(description) == "{}" {
		return
	}
	var contract struct {
		Chain, Address, Name, Symbol, TotalSupply, TokenType, ContractDeployer string
		DeployedBlockNumber                                                    int64
		MarketplaceMetadata                                                    *struct {
			FloorPrice                                                                   json.Number
			CollectionName, CollectionSlug, SafelistRequestStatus, ImageURL, Description string
			ExternalURL, TwitterUsername, DiscordURL, BannerImageURL, LastIngestedAt     string
		}
	}
	decoder := json.NewDecoder(strings.NewReader(string(description)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&contract); err != nil || contract.MarketplaceMetadata == nil {
		t.Fatalf("description = %s (%v), want the documented members", description, err)
	}
	if !strings.EqualFold(contract.Address, one) || contract.Chain != "story" || !utf8.Valid(description) {
		t.Errorf("description = %s, want one of %s on story", description, one)
	}
}
