package metadata

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tipcache/tipcache/upstream"
)

const (
	blockscoutParallel = 4               // contracts asked for at the same time
	blockscoutExtra    = 2 * time.Second // for the deployer and the block of one contract
)

// fetchBlockscout asks a Blockscout explorer, which has no batches: each contract costs up to three
// requests. One that fails does not keep the others from being learned, unless the explorer wants
// fewer requests.
func fetchBlockscout(ctx context.Context, explorer *client, addresses []string, learn func(int, *contract)) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var group errgroup.Group
	group.SetLimit(blockscoutParallel)
	errs := make([]error, len(addresses))
	for i, address := range addresses {
		group.Go(func() error {
			c, err := explored(ctx, explorer, address)
			switch {
			case err == nil:
				learn(i, c)
			case upstream.KindOf(err) == upstream.Overloaded:
				stop(err)
			}
			errs[i] = err
			return nil
		})
	}
	_ = group.Wait() // errs has them all
	if cause := context.Cause(ctx); upstream.KindOf(cause) == upstream.Overloaded {
		return cause
	}
	return worst(errs)
}

// worst is the first error about the explorer, else the first about a contract, else nil.
func worst(errs []error) (about error) {
	for _, err := range errs {
		if err != nil && !errors.Is(err, errRefused) {
			return err
		}
		about = cmp.Or(about, err)
	}
	return about
}

// blockscoutToken is the answer of /api/v2/tokens/{address}, with older names.
type blockscoutToken struct {
	AddressHash exact  `json:"address_hash"`
	Address     exact  `json:"address"`
	Name        text   `json:"name"`
	Symbol      text   `json:"symbol"`
	Type        exact  `json:"type"` // ERC-721 and the like
	TotalSupply amount `json:"total_supply"`
	IconURL     exact  `json:"icon_url"`
}

// explored asks for one contract; nil is no record.
func explored(ctx context.Context, explorer *client, address string) (*contract, error) {
	var token blockscoutToken
	err := explorer.do(ctx, http.MethodGet, nil, &token, "api/v2/tokens", address)
	if errors.Is(err, errNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	c := &contract{
		Address:     exact(address),
		Name:        token.Name,
		Symbol:      token.Symbol,
		TotalSupply: token.TotalSupply,
		TokenType:   exact(strings.ReplaceAll(string(token.Type), "-", "")),
		Marketplace: marketplace{ImageURL: token.IconURL},
	}
	if spelled := cmp.Or(token.AddressHash, token.Address); strings.EqualFold(string(spelled), address) {
		c.Address = spelled
	}
	c.ContractDeployer, c.DeployedBlockNumber = deployment(ctx, explorer, address)
	if c.blank() {
		return nil, nil
	}
	return c, nil
}

// deployment asks who deployed the contract, and in which block. Both are worth
// two requests but no failure: what cannot be learned is empty.
func deployment(ctx context.Context, explorer *client, address string) (deployer exact, block int64) {
	ctx, cancel := context.WithTimeout(ctx, blockscoutExtra)
	defer cancel()
	var creation struct {
		Creator     exact  `json:"creator_address_hash"`
		Transaction string `json:"creation_transaction_hash"`
		OlderName   string `json:"creation_tx_hash"`
	}
	if explorer.do(ctx, http.MethodGet, nil, &creation, "api/v2/addresses", address) != nil {
		return "", 0
	}
	hash := cmp.Or(creation.Transaction, creation.OlderName)
	if hash == "" {
		return creation.Creator, 0
	}
	var transaction struct {
		BlockNumber int64 `json:"block_number"`
		OlderName   int64 `json:"block"`
	}
	if explorer.do(ctx, http.MethodGet, nil, &transaction, "api/v2/transactions", hash) != nil {
		return creation.Creator, 0
	}
	return creation.Creator, cmp.Or(transaction.BlockNumber, transaction.OlderName)
}
