package metadata

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/tipcache/tipcache/upstream"
)

const (
	blockscoutParallel = 4               // maximum number of concurrent contracts
	blockscoutExtra    = 2 * time.Second // timeout for the deployer and the block of a contract
)

// fetchBlockscout reads contracts from a Blockscout explorer. It has no batches, so each contract takes up to three requests.
// If one fails, the others are still read, unless the explorer limits the rate.
func fetchBlockscout(ctx context.Context, explorer *client, addresses []string, learn func(int, *Contract)) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(blockscoutParallel)
	errs := make([]error, len(addresses))
	for i, address := range addresses {
		group.Go(func() error {
			c, err := readContract(ctx, explorer, address)
			if err == nil && ctx.Err() != nil && len(addresses) > 1 { // perhaps not all of it was read; alone, it has more time
				err = explorer.silence(ctx, ctx.Err())
			}
			if errs[i] = err; upstream.KindOf(err) == upstream.Overloaded {
				return err // cancels the others
			}
			if err == nil {
				learn(i, c)
			}
			return nil
		})
	}
	if limited := group.Wait(); limited != nil {
		return limited
	}
	return worst(errs)
}

// worst returns the first error of the explorer, or else the first error of a contract, or nil.
func worst(errs []error) (contractErr error) {
	for _, err := range errs {
		if err != nil && !errors.Is(err, errRefused) {
			return err
		}
		contractErr = cmp.Or(contractErr, err)
	}
	return contractErr
}

// A blockscoutToken is the response of /api/v2/tokens/{address}, with older names.
type blockscoutToken struct {
	AddressHash exact  `json:"address_hash"`
	Address     exact  `json:"address"`
	Name        text   `json:"name"`
	Symbol      text   `json:"symbol"`
	Type        exact  `json:"type"` // ERC-721 and the like
	TotalSupply amount `json:"total_supply"`
	IconURL     exact  `json:"icon_url"`
}

// readContract reads one contract. It returns nil if the explorer has no record of it.
func readContract(ctx context.Context, explorer *client, address string) (*Contract, error) {
	var token blockscoutToken
	err := explorer.do(ctx, http.MethodGet, nil, &token, "api/v2/tokens", address)
	if errors.Is(err, errNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	checksummed := cmp.Or(token.AddressHash, token.Address, exact(address))
	if !strings.EqualFold(string(checksummed), address) {
		return nil, explorer.bad(fmt.Errorf("%w: it sent contract %.50q for %s", errRefused, checksummed, address))
	}
	c := &Contract{
		Address:     checksummed,
		Name:        token.Name,
		Symbol:      token.Symbol,
		TotalSupply: token.TotalSupply,
		TokenType:   exact(strings.ReplaceAll(string(token.Type), "-", "")),
		Marketplace: Marketplace{ImageURL: token.IconURL},
	}
	c.ContractDeployer, c.DeployedBlockNumber, err = deployment(ctx, explorer, address)
	switch {
	case isOwn(err), upstream.KindOf(err) == upstream.Overloaded: // a later request gets all of it
		return nil, err
	case c.blank():
		return nil, err
	}
	return c, nil
}

// deployment reads the deployer of a contract and its block. With an error it returns what it has read. A contract without
// a record is no error.
func deployment(ctx context.Context, explorer *client, address string) (deployer exact, block int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, blockscoutExtra)
	defer cancel()
	var creation struct {
		Creator     exact  `json:"creator_address_hash"`
		Transaction string `json:"creation_transaction_hash"`
		OlderName   string `json:"creation_tx_hash"`
	}
	if err := explorer.do(ctx, http.MethodGet, nil, &creation, "api/v2/addresses", address); err != nil {
		if errors.Is(err, errNotFound) {
			err = nil
		}
		return "", 0, err
	}
	hash := cmp.Or(creation.Transaction, creation.OlderName)
	if hash == "" {
		return creation.Creator, 0, nil
	}
	var transaction struct {
		BlockNumber int64 `json:"block_number"`
		OlderName   int64 `json:"block"`
	}
	if err := explorer.do(ctx, http.MethodGet, nil, &transaction, "api/v2/transactions", hash); err != nil {
		return creation.Creator, 0, err
	}
	return creation.Creator, cmp.Or(transaction.BlockNumber, transaction.OlderName), nil
}
