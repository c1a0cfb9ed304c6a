package devnet_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/upstream/devnet"
)

// A contract is what a test looks at in what the provider says.
type contract struct {
	Address         string
	Name            *string
	TokenType       string
	OpenSeaMetadata map[string]any
}

func TestACollectionHasTheDocumentedMembers(t *testing.T) {
	c := devnet.Collection{CollectionAddress: "0x1", AssetCount: 1, CreatedAt: time.Unix(0, 0).UTC(), UpdatedAt: time.Unix(1, 0).UTC()}
	got, err := json.Marshal(c)
	must(t, err)
	want := `{"collectionAddress":"0x1","assetCount":1,"licensesCount":0,"raisedDisputeCount":0,"cancelledDisputeCount":0,` +
		`"judgedDisputeCount":0,"resolvedDisputeCount":0,"createdAt":"1970-01-01T00:00:00Z","updatedAt":"1970-01-01T00:00:01Z"}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestTheProviderKnowsMostCollections(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Collections: 90})
	var addresses []string
	for c := range d.Collections() {
		addresses = append(addresses, strings.ToLower(c.CollectionAddress))
	}
	unknown := "0x00000000000000000000000000000000000dead1"
	contracts := lookup(t, d, append(addresses, unknown))
	named, listed := 0, 0
	var order []string
	for _, c := range contracts {
		order = append(order, strings.ToLower(c.Address))
		if c.Name != nil {
			named++
		}
		if c.OpenSeaMetadata["floorPrice"] != nil {
			listed++
		}
		if strings.EqualFold(c.Address, unknown) && c.TokenType != "NOT_A_CONTRACT" {
			t.Errorf("unknown: %+v", c)
		}
	}
	if named < 70 || named > 89 || listed < 20 || listed > 70 {
		t.Errorf("%d named and %d on the market of %d", named, listed, len(contracts))
	}
	if slices.Equal(order, append(addresses, unknown)) {
		t.Error("the order is that of the request")
	}
	slices.Sort(order)
	slices.Sort(addresses)
	if got := slices.Compact(order); len(got) != 91 {
		t.Errorf("%d distinct contracts", len(got))
	}
	if got := d.Stats().Provider; got != 1 {
		t.Errorf("%d requests counted", got)
	}
}

func TestAddressesAreChecksummed(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	want := "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
	got := lookup(t, d, []string{strings.ToLower(want)})
	if got[0].Address != want {
		t.Errorf("got %s, want %s", got[0].Address, want)
	}
}

// lookup makes one batch request.
func lookup(t *testing.T, d *devnet.Devnet, addresses []string) []contract {
	t.Helper()
	request, err := json.Marshal(map[string][]string{"contractAddresses": addresses})
	must(t, err)
	resp, err := client.Post(d.MetadataURL()+"/nft/v3/key/getContractMetadataBatch", "application/json", strings.NewReader(string(request)))
	must(t, err)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	var answer struct{ Contracts []contract }
	must(t, json.NewDecoder(resp.Body).Decode(&answer))
	return answer.Contracts
}
