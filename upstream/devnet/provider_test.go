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

// A contract has the members of the provider's response that tests check.
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
			t.Errorf("unknown contract = %+v, want type NOT_A_CONTRACT", c)
		}
	}
	if named < 70 || named > 89 || listed < 20 || listed > 70 {
		t.Errorf("contracts with name = %d, with floor price = %d, of %d; want 70 to 89 and 20 to 70", named, listed, len(contracts))
	}
	if slices.Equal(order, append(addresses, unknown)) {
		t.Error("order follows the request, want it sorted")
	}
	slices.Sort(order)
	expect.Equal(t, len(slices.Compact(order)), 91, "distinct contracts")
	expect.Equal(t, d.Stats().Provider, 1, "requests counted")
}

func TestAddressesComeInAnotherCase(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	const address = "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"
	if got := lookup(t, d, []string{address}); got[0].Address == address || !strings.EqualFold(got[0].Address, address) {
		t.Errorf("address = %s, want %s in another case", got[0].Address, address)
	}
}

// lookup sends a batch request.
func lookup(t *testing.T, d *devnet.Devnet, addresses []string) []contract {
	t.Helper()
	request := expect.Value(json.Marshal(map[string][]string{"contractAddresses": addresses}))(t)
	resp := expect.Value(client.Post(d.MetadataURL()+"/nft/v3/key/getContractMetadataBatch", "application/json", strings.NewReader(string(request))))(t)
	defer resp.Body.Close()
	expect.Equal(t, resp.StatusCode, http.StatusOK, "status of the provider")
	var answer struct{ Contracts []contract }
	expect.NoError(t, json.NewDecoder(resp.Body).Decode(&answer))
	return answer.Contracts
}
