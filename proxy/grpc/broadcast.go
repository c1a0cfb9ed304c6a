package grpc

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/tidwall/gjson"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
	"github.com/tipcache/tipcache/upstream/protofield"
)

// broadcast sends a transaction to one node, once: by gRPC, or, if no node offers that or can be reached by it, by the RPC with
// the same effect.
func (k *call) broadcast(message []byte, hs web.Heights) (size int, err error) {
	return k.readNode(message, hs, true, func(ctx context.Context, r node.Request) (int, error) {
		r.Height, r.Unpinned, r.Cost = node.AtTip, true, node.Page
		if !k.o.State.GRPC {
			return k.broadcastByRPC(ctx, r, message)
		}
		byGRPC := r
		byGRPC.Invoke = &node.Invocation{Method: k.name, Message: message, Write: true}
		a, err := k.reader.Nodes.Fetch(ctx, byGRPC)
		if upstream.KindOf(err) == upstream.Unreachable && !upstream.MayHaveRun(err) { // it was not sent
			return k.broadcastByRPC(ctx, r, message)
		}
		tx, _ := readBroadcast(message)
		return k.sendAnswer(a, ofBroadcast(err, tx))
	})
}

// modes maps the modes of a broadcast to methods of the RPC.
var modes = map[uint64]string{2: "broadcast_tx_sync", 3: "broadcast_tx_async"}

func (k *call) broadcastByRPC(ctx context.Context, r node.Request, message []byte) (size int, err error) {
	tx, mode := readBroadcast(message)
	switch {
	case len(tx) == 0:
		return k.send(nil, status.New(codes.InvalidArgument, "invalid empty tx"))
	case modes[mode] == "":
		return k.send(nil, status.New(codes.Unknown, "unsupported return type ; supported types: sync, async"))
	}
	params := json.RawMessage(`{"tx":"` + base64.StdEncoding.EncodeToString(tx) + `"}`)
	r.Call = &node.Call{Method: modes[mode], Params: func(int64) json.RawMessage { return params }, Write: true}
	a, err := k.reader.Nodes.Fetch(ctx, r)
	if err != nil {
		return 0, ofBroadcast(err, tx)
	}
	reply, st := broadcastReply(tx, a)
	if st == nil {
		k.setHeaders(max(1, k.reader.Nodes.Tip().Height))
	}
	return k.send(reply, st)
}

func ofBroadcast(err error, tx []byte) error {
	return blocks.OfBroadcast(err, tx, "GetTx of cosmos.tx.v1beta1.Service with the hash %X")
}

func readBroadcast(message []byte) (tx []byte, mode uint64) {
	for f, ok := range protofield.All(message) {
		switch {
		case !ok:
			return nil, 0
		case f.Number == 1 && f.Type == protowire.BytesType:
			tx = f.Bytes()
		case f.Number == 2 && f.Type == protowire.VarintType:
			mode = f.Varint()
		}
	}
	return tx, mode
}

// refusals maps the RPC's refusals of a transaction to codes of the codespace sdk.
var refusals = []struct {
	text string
	code uint64
}{{"tx already exists in cache", 19}, {"mempool is full", 20}, {"tx too large", 21}}

// broadcastReply returns the BroadcastTxResponse, or the status, for an answer of the RPC.
func broadcastReply(tx []byte, a *node.Answer) ([]byte, *status.Status) {
	_, result, _ := strings.Cut(string(a.Body), ":")
	if a.Reason == node.OK {
		r := gjson.Parse(result)
		data, _ := base64.StdEncoding.DecodeString(r.Get("data").String())
		return broadcastResponse(r.Get("hash").String(), r.Get("codespace").String(), r.Get("code").Uint(), strings.ToUpper(hex.EncodeToString(data)), r.Get("log").String()), nil
	}
	text := gjson.Get(result, "data").String()
	for _, refusal := range refusals {
		if strings.Contains(strings.ToLower(text), refusal.text) {
			return broadcastResponse(fmt.Sprintf("%X", sha256.Sum256(tx)), "sdk", refusal.code, "", ""), nil
		}
	}
	return nil, status.New(codes.Unknown, text)
}

// broadcastResponse returns a BroadcastTxResponse, whose only field is a TxResponse.
func broadcastResponse(hash, codespace string, code uint64, data, log string) []byte {
	return protofield.Append(nil, 1, protofield.Append(nil, 2, hash, 3, codespace, 4, code, 5, data, 6, log))
}
