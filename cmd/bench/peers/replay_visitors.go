package peers

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// visits are visitors of one server and what they saw of it.
type visits struct {
	clients clients.Crowd
	owners  []string

	mu           sync.Mutex
	took, visits []float64 // milliseconds, of requests that were answered and of whole visits
	failed       int
}

// round has each visitor come so often, at times of its own.
func (v *visits) round(ctx context.Context, times int) {
	_ = v.clients.All(func(i int, c *clients.Conn) error {
		paths := walletVisit(v.owners[i])
		if i%2 == 1 {
			paths = explorerVisit()
		}
		next := time.Now().Add(rand.N(visitEvery))
		for range times {
			if !rig.Pause(ctx, time.Until(next)) {
				break
			}
			v.visit(ctx, c, paths)
			next = next.Add(visitEvery)
		}
		return nil // what fails is counted
	})
}

// visit asks one thing after another.
func (v *visits) visit(ctx context.Context, c *clients.Conn, paths []string) {
	began, block, failed := time.Now(), "1", 0
	var took []float64
	for _, path := range paths {
		sent := time.Now()
		a, err := c.Get(ctx, pathAt(path, block))
		if err != nil || a.Status != http.StatusOK {
			failed++
			continue
		}
		took = append(took, figures.Milliseconds(time.Since(sent)))
		if path == newestBlock {
			block = gjson.GetBytes(a.Body, "block.header.height").String()
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.took, v.failed = append(v.took, took...), v.failed+failed
	v.visits = append(v.visits, figures.Milliseconds(time.Since(began)))
}

// row is a line of the table. What was spent is the CPU time of the node and of the
// server, if there is one.
func (v *visits) row(name string, asked, common int64, spent []time.Duration) []string {
	server := ""
	if len(spent) > 1 {
		server = figures.Decimal(spent[1].Seconds())
	}
	return figures.Row(name, len(v.took)+v.failed, v.failed, asked, common, spent[0].Seconds(), server,
		figures.Median(v.took), figures.Quantile(v.took, 0.99), figures.Quantile(v.visits, 0.99))
}

// The modules whose queries wallets and explorers ask when they start.
const (
	sdkStaking  = "/cosmos/staking/v1beta1"
	sdkBank     = "/cosmos/bank/v1beta1"
	sdkComet    = "/cosmos/base/tendermint/v1beta1"
	sdkGov      = "/cosmos/gov/v1"
	newestBlock = sdkComet + "/blocks/latest"
	aboutNode   = "/node_info"
)

// theBlock stands in a path for the height of the newest block that the visitor has seen.
const theBlock = "{block}"

// walletVisit is what a wallet asks of its owner when it starts, and again at each poll.
func walletVisit(owner string) []string {
	return []string{
		"/cosmos/auth/v1beta1/accounts/" + owner,
		sdkBank + "/balances/" + owner + "?pagination.limit=1000",
		sdkBank + "/spendable_balances/" + owner + "?pagination.limit=1000",
		sdkStaking + "/delegations/" + owner + "?pagination.limit=1000",
		sdkStaking + "/delegators/" + owner + "/unbonding_delegations?pagination.limit=1000",
		"/cosmos/distribution/v1beta1/delegators/" + owner + "/rewards",
		"/cosmos/authz/v1beta1/grants/granter/" + owner + "?pagination.limit=1000",
		sdkStaking + "/validators?pagination.limit=1000&status=BOND_STATUS_BONDED",
		sdkStaking + "/pool",
		sdkStaking + "/params",
		sdkComet + aboutNode,
	}
}

// explorerVisit is what the first page of an explorer asks.
func explorerVisit() []string {
	sender := url.QueryEscape("message.sender='" + cosmos.WideDelegator + "'")
	return []string{
		newestBlock, sdkComet + "/blocks/" + theBlock,
		sdkStaking + "/validators?pagination.limit=300&status=BOND_STATUS_BONDED",
		sdkStaking + "/validators?pagination.limit=300&status=BOND_STATUS_UNBONDING",
		sdkStaking + "/validators?pagination.limit=300&status=BOND_STATUS_UNBONDED",
		sdkStaking + "/pool", sdkStaking + "/params",
		"/cosmos/slashing/v1beta1/params", "/cosmos/slashing/v1beta1/signing_infos?pagination.limit=300",
		"/cosmos/distribution/v1beta1/params", "/cosmos/mint/v1beta1/params", "/cosmos/mint/v1beta1/inflation",
		sdkBank + "/params", sdkBank + "/supply/by_denom?denom=stake",
		sdkGov + "/params/voting", sdkGov + "/params/tallying", sdkGov + "/params/deposit",
		sdkGov + "/proposals?pagination.limit=50&pagination.reverse=true&proposal_status=2", sdkGov + "/proposals/10/tally",
		"/cosmos/tx/v1beta1/txs?query=" + sender + "&order_by=ORDER_BY_DESC&limit=20",
	}
}

// pathAt is a path with the block in its place.
func pathAt(path, block string) string { return strings.ReplaceAll(path, theBlock, block) }
