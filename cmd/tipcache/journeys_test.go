package main

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// A journey has the requests of a known client in order: paths of the REST API, or RPC calls as "method params".
type journey struct {
	name     string
	dialect  devnet.Dialect
	requests []string
}

var journeys = []journey{
	{"the staking dashboard's page of a delegator", devnet.Story, []string{
		"/staking/params", "/staking/pool", "/staking/validators?pagination.limit=100", "/staking/delegations/" + delegator,
		"/staking/validators/" + validator + "/delegations/" + delegator, "/staking/delegators/" + delegator + "/unbonding_delegations",
		"/staking/validators/" + validator + "/delegators/" + delegator + "/period_delegations",
		"/distribution/delegators/" + delegator + "/rewards", "/bank/supply/by_denom?denom=stake", "/dkg/latest_active",
	}},
	{"the CDR SDK, which polls for partials", devnet.Story, []string{
		"/dkg/latest_active", "/dkg/dkg_network?round=1", "/dkg/global_public_key", "/dkg/registrations?round=1", "/dkg/registrations/verified?round=1",
		"/dkg/cdr_partials?uuid=7&requester_pub_key_hex=04" + strings.Repeat("ab", 64), "/dkg/cdr_partials?uuid=7&requester_pub_key_hex=04" + strings.Repeat("ab", 64),
	}},
	{"a light client", devnet.Cosmos, []string{
		"status {}", `commit {"height":"900"}`, `validators {"height":"900","page":"1","per_page":"100"}`, `commit {"height":"999"}`, `validators {"height":"999","page":"1","per_page":"100"}`,
		`abci_query {"path":"/store/staking/key","data":"21","height":"998","prove":true}`, `abci_query {"path":"/store/staking/key","data":"21","height":"0","prove":true}`,
	}},
	{"a relayer", devnet.Cosmos, []string{
		"status {}", "abci_info {}", `abci_query {"path":"/cosmos.staking.v1beta1.Query/Params","data":"","height":"0","prove":false}`,
		`block {"height":"900"}`, `block_results {"height":"900"}`, `header {"height":"901"}`,
		`abci_query {"path":"/store/staking/key","data":"21","height":"900","prove":true}`,
		`tx_search {"query":"tx.height>1","prove":false,"page":"1","per_page":"30","order_by":"desc"}`,
		"/cosmos/base/tendermint/v1beta1/blocks/900", "/ibc/core/channel/v1/channels?pagination.limit=10",
	}},
	{"a wallet that traces a transaction", devnet.Cosmos, []string{
		`tx {"hash":"69KcrfzuXX2OMcXvJzbBYSzs8VrciKQAqPVJG+jmhJo=","prove":false}`, "/cosmos/tx/v1beta1/txs/" + cosmos.DelegateTx,
		fmt.Sprintf(`tx_search {"query":"tx.hash='%s'"}`, cosmos.DelegateTx), "/cosmos/staking/v1beta1/pool",
		"/cosmos/bank/v1beta1/balances/" + cosmos.WideDelegator + "?pagination.limit=1000", "/cosmos/staking/v1beta1/delegations/" + cosmos.WideDelegator + "?pagination.limit=1000",
		"/cosmos/authz/v1beta1/grants/granter/" + cosmos.WideDelegator + "?pagination.limit=1000", "/cosmos/base/tendermint/v1beta1/node_info",
	}},
}

func TestKnownClientsGetTheResponsesOfTheNode(t *testing.T) {
	for _, j := range journeys {
		t.Run(j.name, func(t *testing.T) {
			t.Parallel()
			d := newDevnet(t, devnet.Options{Dialect: j.dialect, Interval: -1})
			r := startRunning(t, d, func(c *config.Config) {
				c.Chain.Shape, c.RPC.Listen = "node", "127.0.0.1:0"
			})
			for range 2 { // the second time from memory
				for _, request := range j.requests {
					got, want := r.follow(request, r.base, "http://"+r.Addresses.RPC), r.follow(request, d.NodeURL(), d.CometURL())
					if strings.Contains(want.body, "-32601") {
						t.Fatalf("the simulated node lacks %s", request)
					}
					if got.status != want.status || !sameJSON(got.body, want.body) {
						t.Errorf("%s = %d %.300s, want %d %.300s", request, got.status, got.body, want.status, want.body)
					}
				}
			}
		})
	}
}

func (r *instance) follow(request, rest, rpc string) reply {
	r.t.Helper()
	if strings.HasPrefix(request, "/") {
		return r.get(rest + request)
	}
	method, params, _ := strings.Cut(request, " ")
	return r.do(http.MethodPost, rpc, fmt.Sprintf(`{"jsonrpc":"2.0","id":7,"method":%q,"params":%s}`, method, params), "Content-Type", "application/json")
}

func sameJSON(a, b string) bool {
	return a == b || gjson.Valid(a) && gjson.Get(a, "@ugly").Raw == gjson.Get(b, "@ugly").Raw
}
