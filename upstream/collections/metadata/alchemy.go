package metadata

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"

	"github.com/tidwall/gjson"
)

// fetchAlchemy reads all contracts from version 3 of Alchemy's NFT API in one request. The last path element of its URL is
// the key: https://story-mainnet.g.alchemy.com/nft/v3/<key>. The response is an array of contracts, or an object with this array.
func fetchAlchemy(ctx context.Context, c *client, addresses []string, learn func(int, *Contract)) error {
	body, _ := json.Marshal(map[string][]string{"contractAddresses": addresses}) // texts always encode
	var answer json.RawMessage
	if err := c.do(ctx, http.MethodPost, body, &answer, "getContractMetadataBatch"); err != nil {
		return err
	}
	list := gjson.ParseBytes(answer)
	if list.IsObject() {
		if failed := list.Get("error"); failed.Exists() && failed.Type != gjson.Null {
			return c.bad(errors.New("response has status 200 but contains an error"))
		}
		list = list.Get("contracts")
	}
	if !list.IsArray() {
		return c.bad(errors.New("response has no contracts"))
	}
	requested := make(map[string]int, len(addresses))
	for i, address := range addresses {
		requested[address] = i
	}
	known, valid := map[int]*Contract{}, true // only these are decoded, because empty contracts need much more memory than their text
	list.ForEach(func(_, item gjson.Result) bool {
		if i, ok := requested[strings.ToLower(item.Get("address").Str)]; ok {
			known[i] = parseAlchemy(item)
		}
		valid = item.IsObject() || item.Type == gjson.Null
		return valid
	})
	if !valid {
		return c.bad(errors.New("response is not the expected JSON"))
	}
	for i, contract := range known {
		learn(i, contract)
	}
	return nil
}

// An alchemyContract is a contract in Alchemy's form. Names match case-insensitively, so openseaMetadata matches as well.
type alchemyContract struct {
	Contract
	OpenSea Marketplace `json:"openSeaMetadata"`
}

// parseAlchemy parses a contract. It returns nil if Alchemy has no record of it.
func parseAlchemy(item gjson.Result) *Contract {
	var from alchemyContract
	_ = json.Unmarshal([]byte(item.Raw), &from) // skips members of unexpected types
	c := from.Contract
	c.Marketplace = from.OpenSea
	if c.blank() || c.TokenType == "NOT_A_CONTRACT" {
		return nil
	}
	return &c
}
