package demo

import (
	"fmt"
	"io"

	"github.com/tipcache/tipcache/cmd/tipcache/service"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// queries are the example requests of the banner.
type queries struct {
	paths     []string
	explained string // the path of the row staking_params
}

// queriesOf returns the examples for a dialect. They name addresses of the simulated chain.
func queriesOf(d devnet.Dialect) queries {
	if d == devnet.Cosmos {
		return cosmosQueries()
	}
	const validator, delegator = devnet.PopularValidator, devnet.WideDelegator
	return queries{explained: "/staking/params", paths: []string{
		"/staking/validators?status=bonded&pagination.limit=2",
		"/staking/validators/" + validator,
		"/staking/validators/" + validator + "/delegations?pagination.limit=2",
		"/staking/delegations/" + delegator,
		"/staking/delegators/" + delegator + "/redelegations",
		"/staking/delegators/" + delegator + "/validators/" + validator,
		"/staking/validators/" + validator + "/delegations/" + delegator,
		"/staking/validators/" + validator + "/delegators/" + delegator + "/period_delegations",
		"/staking/params",
		"/distribution/delegators/" + delegator + "/rewards",
		"/distribution/params",
		"/auth/params",
	}}
}

func cosmosQueries() queries {
	const staking, wasm = "/cosmos/staking/v1beta1", "/cosmwasm/wasm/v1/contract/" + cosmos.Contract
	return queries{explained: staking + "/params", paths: []string{
		staking + "/validators?status=BOND_STATUS_BONDED&pagination.limit=2",
		staking + "/validators/" + cosmos.PopularValidator + "/delegations?pagination.limit=2",
		staking + "/delegations/" + cosmos.WideDelegator,
		staking + "/params",
		"/cosmos/bank/v1beta1/balances/" + cosmos.WideDelegator + "?pagination.limit=2",
		"/cosmos/distribution/v1beta1/delegators/" + cosmos.WideDelegator + "/rewards",
		"/cosmos/gov/v1/proposals/" + cosmos.VotedProposal + "/tally",
		"/cosmos/base/tendermint/v1beta1/blocks/latest",
		"/cosmos/tx/v1beta1/txs/" + cosmos.DelegateTx,
		wasm + "/smart/eyJ2ZXJpZmllciI6e319",
	}}
}

// cosmJS is a shell command that sends coins through the RPC. Its verbs are the address and a recipient.
const cosmJS = `
The same by CosmJS, which simulates, signs, broadcasts and waits:
  npm install --silent @cosmjs/stargate@0.39 @cosmjs/proto-signing@0.39
  node --input-type=module -e '
    import { DirectSecp256k1Wallet } from "@cosmjs/proto-signing"
    import { GasPrice, SigningStargateClient } from "@cosmjs/stargate"
    const wallet = await DirectSecp256k1Wallet.fromKey(new Uint8Array(32).fill(1), "cosmos")
    const [{ address }] = await wallet.getAccounts()
    const client = await SigningStargateClient.connectWithSigner("http://%s", wallet, { gasPrice: GasPrice.fromString("0.01stake") })
    console.log(await client.getAllBalances(address))
    const sent = await client.sendTokens(address, "%s", [{ denom: "stake", amount: "5" }], "auto")
    console.log("in block", sent.height, await client.getAllBalances(address))
  '
`

// printBanner prints commands that work when pasted.
func printBanner(w io.Writer, s *service.Service, d *devnet.Devnet, key string) {
	base, admin := "http://"+s.Addr(), "http://"+s.AdminAddr()
	collection := ""
	for c := range d.Collections() {
		collection = c.Address
		break
	}
	fmt.Fprintf(w, "tipcache demo: chain %s, its nodes and a metadata provider, simulated in this process.\n\n", d.ChainID())
	fmt.Fprintf(w, "  public   %s\n", base)
	for _, listener := range [][2]string{{"RPC", s.RPCAddr()}, {"gRPC", s.GRPCAddr()}} {
		if listener[1] != "none" {
			fmt.Fprintf(w, "  %-8s %s\n", listener[0], listener[1])
		}
	}
	fmt.Fprintf(w, "  docs     %s/docs\n  admin    %s\n  faults   %s/devnet/faults\n  API key  %s\n\n", base, admin, d.ControlURL(), key)
	fmt.Fprintf(w, "Open %s/ for the status page, %s/docs for the API with examples to try, and %s/docs/live for live responses.\n\n", admin, base, base)
	fmt.Fprintln(w, "Chain queries:")
	shown := queriesOf(d.Dialect())
	for _, path := range shown.paths {
		fmt.Fprintf(w, "  curl -i '%s%s'\n", base, path)
	}
	if rpc := s.RPCAddr(); rpc != "none" {
		fmt.Fprintln(w, "\nThe node's RPC by POST, in a batch and by URI. Its WebSocket is at /websocket:")
		fmt.Fprintf(w, "  curl -i 'http://%s' -d '{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"status\",\"params\":{}}'\n", rpc)
		fmt.Fprintf(w, "  curl -i 'http://%s' -d '[{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"block\",\"params\":{\"height\":\"%d\"}},{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"block\",\"params\":{}}]'\n", rpc, d.Height())
		fmt.Fprintf(w, "  curl -i 'http://%s/block?height=%d'\n", rpc, d.Height())
		if d.Dialect() == devnet.Cosmos {
			fmt.Fprintf(w, cosmJS, rpc, cosmos.WideDelegator)
		}
	}
	if at := s.GRPCAddr(); at != "none" && d.Dialect() == devnet.Cosmos {
		fmt.Fprintln(w, "\nThe node's gRPC, and gRPC-Web at the public address. This node has no reflection, so grpcurl needs the chain's .proto files:")
		const call = "  printf '\\0\\0\\0\\0\\0' | curl -s%s 'http://%s/cosmos.staking.v1beta1.Query/Params' -H 'Content-Type: application/grpc%s' --data-binary @- | od -c\n"
		fmt.Fprintf(w, call, " --http2-prior-knowledge -H 'TE: trailers'", at, "")
		fmt.Fprintf(w, call, "", s.Addr(), "-web+proto")
	}
	fmt.Fprintln(w, "\nA page of collections, and a single one:")
	for _, body := range []string{
		`{"orderBy":"assetCount","orderDirection":"desc","pagination":{"limit":3}}`,
		`{"where":{"collectionAddresses":["` + collection + `"]}}`,
	} {
		fmt.Fprintf(w, "  curl -i '%s/api/v4/collections' -H 'X-Api-Key: %s' -H 'Content-Type: application/json' -d '%s'\n", base, key, body)
	}
	fmt.Fprintln(w, "\nOperation, and an outage of the node:")
	fmt.Fprintf(w, "  curl '%[1]s/readyz'\n  curl '%[1]s/metrics'\n  curl '%[1]s/admin/explain?url=%[2]s'\n  curl -X POST '%[1]s/admin/purge?route=staking_params'\n", admin, shown.explained)
	fmt.Fprintf(w, "  curl -X PUT '%s/devnet/faults' -d '{\"node\":{\"outage\":\"refuse\"}}'\n", d.ControlURL())
	fmt.Fprintf(w, "  curl -X PUT '%s/devnet/faults' -d '{\"node\":{}}'\n\nStop with Ctrl-C.\n", d.ControlURL())
}
