package devnet_test

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A contract is what a test looks at in what the provider says.
type contract struct {
	Address         string
	Name            *string
	TokenType       string
	OpenSeaMetadata map[string]any
}

func TestProviderKnowsMostCollections(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Collections: 90})
	var addresses []string
	for c := range d.Collections() {
		addresses = append(addresses, strings.ToLower(c.Address))
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
		t.Error("order follows the request, want it sorted")
	}
	slices.Sort(order)
	slices.Sort(addresses)
	if got := slices.Compact(order); len(got) != 91 {
		t.Errorf("%d distinct contracts", len(got))
	}
	expect.Equal(t, d.Stats().Provider, 1, "requests counted")
}

func TestAddressesComeInAnotherCase(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	const asked = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"
	if got := lookup(t, d, []string{asked}); got[0].Address == asked || !strings.EqualFold(got[0].Address, asked) {
		t.Errorf("got %s, asked for %s", got[0].Address, asked)
	}
}

// lookup makes one batch request.
func lookup(t *testing.T, d *devnet.Devnet, addresses []string) []contract {
	t.Helper()
	request := expect.Value(json.Marshal(map[string][]string{"contractAddresses": addresses}))(t)
	resp := expect.Value(client.Post(d.MetadataURL()+"/nft/v3/key/getContractMetadataBatch", "application/json", strings.NewReader(string(request))))(t)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatal(resp.Status)
	}
	var answer struct{ Contracts []contract }
	expect.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
	return answer.Contracts
}
