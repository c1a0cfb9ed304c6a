package cosmos

import (
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/upstream/node"
)

// An outsideRow is a row for values that a node computes outside the state: from its memory, its mempool or its program. They are
// passed through, because they have no height and may differ between nodes. source is the URL of the code.
type outsideRow struct {
	dialect.Row
	source string
}

// The sources of several rows.
const (
	osmosis   = "https://github.com/osmosis-labs/osmosis/blob/main/x/"
	dydx      = "https://github.com/dydxprotocol/v4-chain/blob/main/protocol/x/"
	sdkSource = "https://github.com/cosmos/cosmos-sdk/blob/main/"
)

// poolmanager is a service whose name differs from its paths.
const poolmanager = "/osmosis.poolmanager.v1beta1.Query/"

// outside are the known rows of this kind. A row without a pattern is for a gRPC method without a path.
var outside = []outsideRow{
	// The fee market of the mempool is in memory only: earlier values are lost.
	{row("osmosis_eip_base_fee", "/osmosis/txfees/v1beta1/cur_eip_base_fee", Never, node.Cheap, "", "GetEipBaseFee"),
		osmosis + "txfees/keeper/grpc_query.go"},
	{row("injective_eip_base_fee", "/injective/txfees/v1beta1/cur_eip_base_fee", Never, node.Cheap, "", "GetEipBaseFee"),
		"https://github.com/InjectiveFoundation/injective-core/blob/release/v1.17.x/injective-chain/modules/txfees/keeper/grpc_query.go"},

	// Agreements of the taker fee are read from maps of the keeper, which follow the newest block.
	{row("osmosis_taker_fee_agreement", "/osmosis/poolmanager/v1beta1/{denom}/taker_fee_share_agreement_from_denom", Never, node.Cheap, "", poolmanager+"TakerFeeShareAgreementFromDenom"), osmosis + "poolmanager/client/query_proto_wrap.go"},
	{row("osmosis_alloyed_pool_of_denom", "/osmosis/poolmanager/v1beta1/{denom}/registered_alloyed_pool_from_denom", Never, node.Cheap, "", poolmanager+"RegisteredAlloyedPoolFromDenom"), osmosis + "poolmanager/client/query_proto_wrap.go"},
	{row("osmosis_alloyed_pool", "/osmosis/poolmanager/v1beta1/{pool_id}/registered_alloyed_pool_from_pool_id", Never, node.Cheap, "", poolmanager+"RegisteredAlloyedPoolFromPoolId"), osmosis + "poolmanager/client/query_proto_wrap.go"},

	// The state of a transaction, pending ones included, and gas prices of the mempool.
	{row("celestia_core", "/celestia/core/v1/{path=**}", Never, node.Cheap, "*", ""),
		"https://github.com/celestiaorg/celestia-app/blob/main/proto/celestia/core/v1/tx/tx.proto"},

	// Orders are read from a memory store, and the pairs of perpetuals from a map of the keeper. Results come in the
	// order of a map.
	{row("dydx_clob_leverage", "/dydxprotocol/clob/leverage/{path=**}", Never, node.Cheap, "*", "/dydxprotocol.clob.Query/Leverage"), dydx + "clob/keeper/clob_pair.go"},
	{row("dydx_clob_order", "", Never, node.Cheap, "", "/dydxprotocol.clob.Query/StatefulOrder"), dydx + "clob/keeper/stores.go"},
	{row("dydx_clob_mev", "", Never, node.Page, "", "/dydxprotocol.clob.Query/MevNodeToNodeCalculation"), dydx + "clob/keeper/grpc_query_mev_node_to_node.go"},
	// What the node's own daemon has seen of the bridge.
	{row("dydx_bridge_recognized", "/dydxprotocol/v4/bridge/recognized_event_info", Never, node.Cheap, "", "/dydxprotocol.bridge.Query/RecognizedEventInfo"),
		dydx + "bridge/keeper/grpc_query.go"},

	// Versions that the program was built with.
	{row("sei_pointer_version", "/sei-protocol/seichain/evm/pointer_version", Never, node.Cheap, "*", "/seiprotocol.seichain.evm.Query/PointerVersion"),
		"https://github.com/sei-protocol/sei-chain/blob/main/x/evm/keeper/grpc_query.go"},
	{row("autocli_options", "", Never, node.Page, "", "/cosmos.autocli.v1.Query/AppOptions"), sdkSource + "runtime/services/autocli.go"},
	{row("app_config", "", Never, node.Page, "", "/cosmos.app.v1alpha1.Query/Config"), sdkSource + "runtime/services/app.go"},

	// The configuration of the program, on Babylon and other chains with the module of cosmos/evm.
	{row("evm_config", "/cosmos/evm/vm/v1/config", Never, node.Cheap, "", "Config"), "https://github.com/cosmos/evm/blob/main/x/vm/keeper/grpc_query.go"},

	// The mempool of Neutron and of other chains with the block SDK.
	{row("block_sdk_mempool", "/block-sdk/mempool/v1/{path=**}", Never, node.Cheap, "*", ""),
		"https://github.com/skip-mev/block-sdk/blob/main/block/service/service.go"},

	// An archive that a Story node may have in addition to the state.
	{row("story_partials_history", "", Never, node.Page, "", "/story.dkg.v1.types.Query/GetCDRPartialsHistory"),
		"https://github.com/piplabs/story/blob/main/client/x/dkg/keeper/query.go"},
}
