package metadata

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
)

// fetchAlchemy asks version 3 of Alchemy's NFT API for all contracts in one request.
// The last element of its URL is the key:
// https://story-mainnet.g.alchemy.com/nft/v3/<key>.
func fetchAlchemy(ctx context.Context, c *client, addresses []string, learn func(int, *contract)) error {
	body, err := json.Marshal(map[string][]string{"contractAddresses": addresses})
	if err != nil {
		return c.bad(err)
	}
	var answer alchemyAnswer
	if err := c.do(ctx, http.MethodPost, body, &answer, "getContractMetadataBatch"); err != nil {
		return err
	}
	switch {
	case len(answer.Error) > 0 && string(answer.Error) != "null":
		return c.bad(errors.New("status 200 with an error"))
	case answer.Contracts == nil:
		return c.bad(errors.New("no contracts in the answer"))
	}
	known := answer.known()
	for i, address := range addresses {
		if c, listed := known[address]; listed {
			learn(i, c)
		}
	}
	return nil
}

// alchemyAnswer is an answer: a bare array of contracts, or an object that has it.
type alchemyAnswer struct {
	Contracts []alchemyContract `json:"contracts"`
	Error     json.RawMessage   `json:"error"`
}

// alchemyContract is a contract as Alchemy has it. Names match without case: openseaMetadata, too.
type alchemyContract struct {
	contract
	OpenSea marketplace `json:"openSeaMetadata"`
}

// UnmarshalJSON reads both forms.
func (a *alchemyAnswer) UnmarshalJSON(text []byte) error {
	if text[0] == '[' {
		return json.Unmarshal(text, &a.Contracts)
	}
	type object alchemyAnswer // without this method
	return json.Unmarshal(text, (*object)(a))
}

// known returns the contracts that are listed, by lower-case address, nil for one that Alchemy has
// no record of.
func (a *alchemyAnswer) known() map[string]*contract {
	contracts := make(map[string]*contract, len(a.Contracts))
	for _, from := range a.Contracts {
		c := from.contract
		c.Marketplace = from.OpenSea
		listed := &c
		if c.blank() || c.TokenType == "NOT_A_CONTRACT" {
			listed = nil
		}
		contracts[strings.ToLower(string(c.Address))] = listed
	}
	return contracts
}
