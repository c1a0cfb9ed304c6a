package proxy_test

import (
	"context"
	"encoding/json"
)

const wowMetadata = `{"chain":"story-mainnet","address":"0xe785E82358879F061BC3dcAC6f0444462D4b5330","name":"World <of> Women","symbol":"WOW","totalSupply":"10000","tokenType":"ERC721","contractDeployer":"0xc9b6321dc216D91E626E9BAA61b06B0E4d55bdb1","deployedBlockNumber":12907782,"marketplaceMetadata":{"floorPrice":0.4249989,"collectionName":"World of Women","externalUrl":null}}`

// fakeProvider is a metadata provider that describes the given collections.
type fakeProvider map[string]string

func (d fakeProvider) Lookup(_ context.Context, addresses []string) (map[string]json.RawMessage, bool) {
	found := map[string]json.RawMessage{}
	for _, a := range addresses {
		found[a] = json.RawMessage("{}")
		if known, ok := d[a]; ok {
			found[a] = json.RawMessage(known)
		}
	}
	return found, false
}
