package grpc_test

import (
	"bytes"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/upstream/expect"
)

func TestTransactionThatTheRPCRefusesHasASDKCodeOrAStatus(t *testing.T) {
	const sync, async, hash = "0a01611002", "0a01611003", "CA978112CA1BBDCAFAC231B39A23DC4DA786EFF8147C4E72B9807785AFEE48BB"
	for name, tt := range map[string]struct {
		message, failure string // in hexadecimal, and the data of the RPC's error
		method           string // of the RPC, "" if nothing is sent
		reply            string // end of the reply, "" for none
		status           codes.Code
		text             string
	}{
		"a known transaction":     {sync, "tx already exists in cache", "broadcast_tx_sync", "\x1a\x03sdk\x20\x13", codes.OK, ""},
		"a full mempool":          {async, "mempool is full: number of txs 5000 (max: 5000)", "broadcast_tx_async", "\x1a\x03sdk\x20\x14", codes.OK, ""},
		"a too large transaction": {sync, "Tx too large. Max size is 1", "broadcast_tx_sync", "\x1a\x03sdk\x20\x15", codes.OK, ""},
		"another error":           {sync, "tx verification failed", "broadcast_tx_sync", "", codes.Unavailable, ""},
		"no reply": {
			sync, noReply, "broadcast_tx_sync", "", codes.Unknown,
			"the chain node did not answer, so it is not known whether it has the transaction " + hash + "; before you send another one, ask for it by GetTx of cosmos.tx.v1beta1.Service with the hash " + hash,
		},
		"no transaction":   {"1002", "", "", "", codes.InvalidArgument, "invalid empty tx"},
		"a broken message": {"0a0561", "", "", "", codes.InvalidArgument, "invalid empty tx"},
		"an unknown mode":  {"0a01611001", "", "", "", codes.Unknown, "unsupported return type ; supported types: sync, async"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newRecordedNode(t)
			n.failure = tt.failure
			r := invoke(t.Context(), open(t, n, false).dial(t), "/cosmos.tx.v1beta1.Service/BroadcastTx", tt.message)
			if status.Code(r.err) != tt.status || tt.text != "" && status.Convert(r.err).Message() != tt.text {
				t.Errorf("error = %v, want %v %q", r.err, tt.status, tt.text)
			}
			if !bytes.HasSuffix(r.message, []byte(tt.reply)) {
				t.Errorf("reply = %x, want it to end with %x", r.message, tt.reply)
			}
			expect.Equal(t, n.requests("RPC broadcast"), min(len(tt.method), 1), "sent transactions")
			if tt.method != "" {
				expect.Equal(t, n.requests("RPC "+tt.method), 1, "calls of %s", tt.method)
			}
		})
	}
}

func TestTransactionThatAGatewayLosesIsNotUnavailable(t *testing.T) {
	const broadcast, message = "/cosmos.tx.v1beta1.Service/BroadcastTx", "0a01611002"
	n := newRecordedNode(t)
	n.byGRPC[callKey(broadcast, message)] = exchange{Trailers: map[string]string{"grpc-status": "14", "grpc-message": "upstream connect error or disconnect/reset before headers"}}
	r := invoke(t.Context(), open(t, n, true).dial(t), broadcast, message)
	expect.Equal(t, status.Code(r.err), codes.Unknown, "code of %v, because clients repeat a call that is UNAVAILABLE", r.err)
	expect.Contains(t, status.Convert(r.err).Message(), "it is not known whether it has the transaction", "text")
	expect.Equal(t, n.requests("gRPC "+broadcast), 1, "sent transactions")
}

func TestTransactionGoesByRPCWhileGRPCIsDown(t *testing.T) {
	const broadcast, message = "/cosmos.tx.v1beta1.Service/BroadcastTx", "0a01611002"
	n := newRecordedNode(t)
	n.failure = "tx already exists in cache"
	d := open(t, n, true)
	conn := d.dial(t)
	n.server.Stop()
	expect.Eventually(t, "the node's gRPC is down", func() bool { return d.pool.Health()[0].GRPC != "ok" }) // before, a call may be lost
	r := invoke(t.Context(), conn, broadcast, message)
	expect.NoError(t, r.err)
	if !bytes.HasSuffix(r.message, []byte("\x1a\x03sdk\x20\x13")) {
		t.Errorf("reply = %x, want the code of a known transaction", r.message)
	}
	expect.Equal(t, n.requests("RPC broadcast_tx_sync"), 1, "transactions sent by RPC")
}
