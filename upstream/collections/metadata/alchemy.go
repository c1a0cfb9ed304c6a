package metadata

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
)

// fetchAlchemy reads all contracts from version 3 of Alchemy's NFT API in one request. The last path element of its URL is
// the key: https://story-mainnet.g.alchemy.com/nft/v3/<key>.
func fetchAlchemy(ctx context.Context, c *client, addresses []string, learn func(int, *Contract)) error {
	body, _ := json.Marshal(map[string][]string{"contractAddresses": addresses}) // texts always encode
	var answer alchemyAnswer
	if err := c.do(ctx, http.MethodPost, body, &answer, "getContractMetadataBatch"); err != nil {
		return err
	}
	switch {
	case len(answer.Error) > 0 && string(answer.Error) != "null":
		return c.bad(errors.New("response has status 200 but contains an error"))
	case answer.Contracts == nil:
		return c.bad(errors.New("response has no contracts"))
	}
	known := answer.known()
	for i, address := range addresses {
		if c, listed := known[address]; listed {
			learn(i, c)
		}
	}
	return nil
}

// An alchemyAnswer is a response: an array of contracts, or an object with this array.
type alchemyAnswer struct {
	Contracts []alchemyContract `json:"contracts"`
	Error     json.RawMessage   `json:"error"`
}

// An alchemyContract is a contract in Alchemy's form. Names match case-insensitively, so openseaMetadata matches as well.
type alchemyContract struct {
	Contract
	OpenSea Marketplace `json:"openSeaMetadata"`
}

func (a *alchemyAnswer) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, &a.Contracts)
	}
	type object alchemyAnswer // without this method
	return json.Unmarshal(text, (*object)(a))
}

// known returns the listed contracts by lower-case address. The value is nil if Alchemy has no record of the contract.
func (a *alchemyAnswer) known() map[string]*Contract {
	contracts := make(map[string]*Contract, len(a.Contracts))
	for _, from := range a.Contracts {
		c := from.Contract
		c.Marketplace = from.OpenSea
		listed := &c
		if c.blank() || c.TokenType == "NOT_A_CONTRACT" {
			listed = nil
		}
		contracts[strings.ToLower(string(c.Address))] = listed
	}
	return contracts
}
