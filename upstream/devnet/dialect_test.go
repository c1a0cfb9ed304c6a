package devnet_test

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/protofield"
)

const pool = "/cosmos/staking/v1beta1/pool"

// sdk reads a path of the SDK at a height, "" being the latest.
func sdk(t *testing.T, d *devnet.Devnet, path, height string) (*http.Response, string) {
	t.Helper()
	r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, d.NodeURL()+path, nil))(t)
	if height != "" {
		r.Header.Set("X-Cosmos-Block-Height", height)
	}
	resp := expect.Value(client.Do(r))(t)
	defer resp.Body.Close()
	body := expect.Value(io.ReadAll(resp.Body))(t)
	return resp, string(body)
}

func TestCosmosNodeFollowsTheChain(t *testing.T) {
	d := start(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1})
	resp, before := sdk(t, d, pool, "")
	if resp.StatusCode != http.StatusOK || resp.Header.Get("X-Cosmos-Block-Height") != "1000" {
		t.Fatalf("pool = %d with headers %v, want 200 at 1000", resp.StatusCode, resp.Header)
	}
	d.Advance(1)
	if _, after := sdk(t, d, pool, ""); after == before {
		t.Errorf("pool after a block = %s, want another than before", after)
	}
	_, pinned := sdk(t, d, pool, "1000")
	expect.Equal(t, pinned, before, "pool at 1000")
	expect.Equal(t, d.Stats().Node.Reads, 3, "counted reads")
	resp, _ = sdk(t, d, "/staking/validators", "")
	expect.Equal(t, resp.StatusCode, http.StatusNotImplemented, "status of a path of Story")
}

func TestRestartedCosmosNodeKnowsNoLatestBlock(t *testing.T) {
	d := start(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1})
	expect.NoError(t, d.SetFaults(devnet.Faults{Node: devnet.Fault{Outage: devnet.Refuse}}))
	for _, addr := range []string{strings.TrimPrefix(d.NodeURL(), "http://"), d.Node().GRPCAddr()} {
		_, err := net.Dial("tcp", addr)
		expect.ErrorIs(t, err, syscall.ECONNREFUSED, "connection to %s during the outage", addr)
	}
	expect.NoError(t, d.SetFaults(devnet.Faults{}))
	if resp, body := sdk(t, d, pool, ""); resp.StatusCode != http.StatusInternalServerError || !strings.Contains(body, "latest block height") {
		t.Errorf("latest pool = %d %s, want 500 about the latest block height", resp.StatusCode, body)
	}
	resp, body := sdk(t, d, pool, "1000")
	expect.Equal(t, resp.StatusCode, http.StatusOK, "status at 1000 (%s)", body)
	expect.Equal(t, grpcStatus(t, d, ""), "2", "status of the latest pool by gRPC")
	expect.Equal(t, grpcStatus(t, d, "1000"), "0", "status at 1000 by gRPC")
	d.Advance(1)
	resp, body = sdk(t, d, pool, "")
	expect.Equal(t, resp.StatusCode, http.StatusOK, "status after a block (%s)", body)
	expect.Equal(t, grpcStatus(t, d, ""), "0", "status after a block by gRPC")
}

func TestReflectionIsAnsweredWhileTheClientMaySendMore(t *testing.T) {
	d := start(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	body, client := io.Pipe()
	defer client.Close()
	go client.Write([]byte("\x00\x00\x00\x00\x02\x3a\x00"))
	expect.Equal(t, callGRPC(ctx, t, d, "grpc.reflection.v1.ServerReflection/ServerReflectionInfo", body, ""), "12", "status of reflection, which the node lacks")
}

// grpcStatus reads the pool by gRPC at a height, "" being the latest.
func grpcStatus(t *testing.T, d *devnet.Devnet, height string) string {
	t.Helper()
	return callGRPC(t.Context(), t, d, "cosmos.staking.v1beta1.Query/Pool", strings.NewReader("\x00\x00\x00\x00\x00"), height)
}

// callGRPC calls a method and returns the status.
func callGRPC(ctx context.Context, t *testing.T, d *devnet.Devnet, method string, body io.Reader, height string) string {
	t.Helper()
	transport := &http.Transport{Protocols: new(http.Protocols)}
	transport.Protocols.SetUnencryptedHTTP2(true)
	defer transport.CloseIdleConnections()
	r := expect.Value(http.NewRequestWithContext(ctx, http.MethodPost, "http://"+d.Node().GRPCAddr()+"/"+method, body))(t)
	r.Header.Set("X-Cosmos-Block-Height", height)
	resp := expect.Value(transport.RoundTrip(r))(t)
	defer resp.Body.Close()
	expect.Value(io.ReadAll(resp.Body))(t)
	return resp.Trailer.Get("Grpc-Status")
}

func TestUnknownDialectIsRefused(t *testing.T) {
	if _, err := devnet.New(devnet.Options{Dialect: "bitcoin"}); err == nil {
		t.Error("New with the dialect bitcoin = nil, want an error")
	}
}

func TestDelegatorsAreThoseOfTheDialect(t *testing.T) {
	d := start(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1, Delegators: 30})
	all := d.Delegators()
	if len(all) < 30 {
		t.Fatalf("delegators = %d, want at least 30", len(all))
	}
	_, body := sdk(t, d, "/cosmos/distribution/v1beta1/delegators/"+all[7]+"/rewards", "")
	expect.Contains(t, body, cosmos.PopularValidator, "rewards of %s", all[7])
}

func TestTransactionsOfABlockAreTheSameInBothAPIs(t *testing.T) {
	d := start(t, devnet.Options{Dialect: devnet.Cosmos, Interval: -1})
	_, rest := sdk(t, d, "/cosmos/base/tendermint/v1beta1/blocks/1000", "")
	_, rpc := post(t, d.CometURL(), `{"jsonrpc":"2.0","id":1,"method":"block","params":{"height":"1000"}}`)
	txs := gjson.Get(rest, "block.data.txs")
	expect.Equal(t, gjson.GetBytes(rpc, "result.block.data.txs").Raw, txs.Raw, "transactions by RPC")
	raw := expect.Value(base64.StdEncoding.DecodeString(txs.Get("0").Str))(t)
	memo := protofield.Bytes(protofield.Bytes(raw, 1), 2)
	if string(memo) != "block 1000" {
		t.Errorf("transaction = %x with memo %q, want one that clients can decode", raw, memo)
	}
	hash := fmt.Sprintf("%X", sha256.Sum256(raw))
	_, found := sdk(t, d, "/cosmos/tx/v1beta1/txs/"+hash, "")
	response := gjson.Get(found, "tx_response")
	expect.Equal(t, response.Get("height").Str+" "+response.Get("txhash").Str, "1000 "+hash, "height and hash by REST")
	expect.Equal(t, response.Get("tx.body.memo").Str, string(memo), "memo by REST")
	_, listed := sdk(t, d, "/cosmos/tx/v1beta1/txs/block/1000", "")
	expect.Equal(t, gjson.Get(listed, "txs.0.body.memo").Str, string(memo), "memo in the list of the block")
	expect.Equal(t, gjson.Get(listed, "block.data.txs").Raw, txs.Raw, "transactions of the block in the list")
	if res, future := sdk(t, d, "/cosmos/tx/v1beta1/txs/block/99999", ""); res.StatusCode != http.StatusInternalServerError {
		t.Errorf("list of a future block = %d %s, want the node's 500", res.StatusCode, future)
	}
}

func field(number byte, value string) string {
	return string([]byte{number<<3 | 2, byte(len(value))}) + value
}

func TestBroadcastTransactionIsAnnouncedAndFound(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Dialect: devnet.Cosmos})
	message := field(1, "cosmos1from") + field(2, "cosmos1to") + field(3, field(1, "stake")+field(2, "5"))
	raw := field(1, field(1, field(1, "/cosmos.bank.v1beta1.MsgSend")+field(2, message))) + field(2, field(1, ""))
	hash := sha256.Sum256([]byte(raw))
	text := base64.StdEncoding.EncodeToString([]byte(raw))

	conn := dial(t, d.CometURL())
	call := func(method, params string) string {
		_, answer := post(t, d.CometURL(), fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params))
		return string(answer)
	}
	send(t, conn, 1, "subscribe", fmt.Sprintf("tm.event='Tx' AND tx.hash='%X'", hash))
	receive(t, conn)
	for _, step := range []struct{ method, params, want string }{
		{"broadcast_tx_sync", `{"tx":"` + text + `"}`, fmt.Sprintf(`"result":{"code":0,"data":"","log":"","codespace":"","hash":"%X"}`, hash)},
		{"broadcast_tx_sync", `{"tx":"` + text + `"}`, `"data":"tx already exists in cache"`},
		{"tx", `{"hash":"` + base64.StdEncoding.EncodeToString(hash[:]) + `"}`, fmt.Sprintf(`"data":"tx (%X) not found"`, hash)},
		{"tx_search", fmt.Sprintf(`{"query":"tx.hash='%X'"}`, hash), `"result":{"txs":[],"total_count":"0"}`},
	} {
		expect.Contains(t, call(step.method, step.params), step.want, "%s", step.method)
	}
	d.Advance(1)
	_, event, err := conn.Read(t.Context())
	if err != nil || !strings.Contains(string(event), `"value":{"TxResult":{"height":"1001","index":1,"tx":"`+text+`"`) {
		t.Errorf("event = %s, %v; want the transaction in block 1001", event, err)
	}
	_, block := sdk(t, d, "/cosmos/base/tendermint/v1beta1/blocks/1001", "")
	expect.Equal(t, gjson.Get(block, "block.data.txs.1").Str, text, "transaction in the block by REST")
	for method, params := range map[string]string{"tx": `{"hash":"` + base64.StdEncoding.EncodeToString(hash[:]) + `"}`, "tx_search": fmt.Sprintf(`{"query":"tx.hash='%X'"}`, hash)} {
		expect.Contains(t, call(method, params), fmt.Sprintf(`{"hash":"%X","height":"1001","index":1,`, hash), "%s", method)
	}
}
