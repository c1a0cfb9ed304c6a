package grpc_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	google "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
	"github.com/tipcache/tipcache/upstream/node/nodetest"
)

const params = "/cosmos.staking.v1beta1.Query/Params"

// dial connects a client of grpc-go to the handler, without TLS unless it is told otherwise.
func (d *servers) dial(t testing.TB, options ...google.DialOption) *google.ClientConn {
	t.Helper()
	return dial(t, d.addr, options...)
}

func dial(t testing.TB, target string, options ...google.DialOption) *google.ClientConn {
	t.Helper()
	options = append([]google.DialOption{
		google.WithTransportCredentials(insecure.NewCredentials()), google.WithDefaultCallOptions(google.ForceCodecV2(node.Bytes{})),
	}, options...)
	c := expect.Value(google.NewClient(target, options...))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// A reply is what a client of gRPC has got.
type reply struct {
	message         []byte
	header, trailer metadata.MD
	from            string // the server's address
	err             error
}

func (r reply) height() string { return strings.Join(r.header.Get("x-cosmos-block-height"), ",") }

// ask calls a method with pairs of metadata.
func ask(ctx context.Context, c *google.ClientConn, method string, message []byte, pairs ...string) (r reply) {
	ctx = metadata.AppendToOutgoingContext(ctx, pairs...)
	var server peer.Peer
	r.err = c.Invoke(ctx, method, &message, &r.message, google.Header(&r.header), google.Trailer(&r.trailer), google.Peer(&server))
	if server.Addr != nil {
		r.from = server.Addr.String()
	}
	return r
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	b := expect.Value(hex.DecodeString(text))(t)
	return b
}

// query asks the RPC's handler for a value at block 14.
func (d *servers) query(t testing.TB, path, message string) string {
	t.Helper()
	return d.post(t, fmt.Sprintf(`{"id":1,"method":"abci_query","params":{"path":%q,"data":%q,"height":"14"}}`, path, message))
}

func (d *servers) post(t testing.TB, body string) string {
	t.Helper()
	resp := expect.Value(http.Post(d.rpc.URL, "application/json", strings.NewReader(body)))(t)
	defer resp.Body.Close()
	text := expect.Value(io.ReadAll(resp.Body))(t)
	return string(text)
}

// recordedMessage is the message of a recorded request.
func recordedMessage(t testing.TB, name string) (path, message string) {
	t.Helper()
	for _, x := range nodetest.Recorded[exchange](t, "testdata/exchanges.jsonl") {
		if x.Name == name {
			return x.Path, x.Message
		}
	}
	t.Fatalf("%s is not recorded", name)
	return "", ""
}

func TestValueIsReadOnceForAllAPIs(t *testing.T) {
	for _, withGRPC := range []bool{false, true} {
		t.Run(fmt.Sprintf("by gRPC %v", withGRPC), func(t *testing.T) {
			n := newRecordedNode(t)
			d := open(t, n, withGRPC)
			c := d.dial(t)
			path, message := recordedMessage(t, "grpc_balance")
			var clients sync.WaitGroup
			for range 10 {
				clients.Go(func() {
					if r := ask(t.Context(), c, path, unhex(t, message), "x-cosmos-block-height", "14"); r.err != nil || r.height() != "14" || len(r.message) == 0 {
						t.Errorf("%v, at block %q: %x", r.err, r.height(), r.message)
					}
				})
				clients.Go(func() {
					want := `{"jsonrpc":"2.0","id":1,"result":{"response":{"code":0,"log":"","info":"","index":"0","key":null,"value":"ChUKBXN0YWtlEgw5OTk5OTk5OTkwMDA=","proofOps":null,"height":"14","codespace":""}}}`
					if got := d.query(t, path, message); got != want {
						t.Error(got)
					}
				})
			}
			clients.Wait()
			byGRPC, byRPC := n.times("gRPC "+path), n.times("RPC "+path)
			if byGRPC+byRPC != 1 || byGRPC == 1 != withGRPC {
				t.Errorf("node requests: %d by gRPC, %d by RPC", byGRPC, byRPC)
			}
		})
	}
}

func TestBlockByHeightIsReadOnceForAllInterfaces(t *testing.T) {
	n := newRecordedNode(t)
	path, message := recordedMessage(t, "grpc_tm_GetBlockByHeight")
	c := open(t, n, true).dial(t)
	for range 3 {
		if r := ask(t.Context(), c, path, unhex(t, message)); r.err != nil || len(r.message) == 0 {
			t.Errorf("%v, message %x; want the block", r.err, r.message)
		}
	}
	if byGRPC, byRPC := n.times("gRPC "+path), n.times("RPC "+path); byGRPC+byRPC != 1 {
		t.Errorf("%d node requests by gRPC and %d by RPC, want one", byGRPC, byRPC)
	}
}

func TestTransactionIsReadOnceForAllAPIs(t *testing.T) {
	for _, withGRPC := range []bool{false, true} {
		t.Run(fmt.Sprintf("by gRPC %v", withGRPC), func(t *testing.T) {
			n := newRecordedNode(t)
			path, message := recordedMessage(t, "grpc_gettx")
			n.byRPC[meaning(path, message, nil)] = strings.Replace(n.byRPC[meaning(path, message, []string{"14"})], `"height":"14"`, `"height":"746"`, 1) // it repeats what it was asked for
			d := open(t, n, withGRPC)
			c := d.dial(t)
			call := fmt.Sprintf(`{"id":1,"method":"abci_query","params":{"path":%q,"data":%q}}`, path, message)
			for range 3 {
				r := ask(t.Context(), c, path, unhex(t, message))
				if r.err != nil || r.height() != "746" || len(r.message) == 0 {
					t.Errorf("%v, at block %q: %x", r.err, r.height(), r.message)
				}
				if want, got := fmt.Sprintf(`"value":"%s","proofOps":null,"height":"746"`, base64.StdEncoding.EncodeToString(r.message)), d.post(t, call); !strings.Contains(got, want) {
					t.Errorf("%s, want %s", got, want)
				}
			}
			if byGRPC, byRPC := n.times("gRPC "+path), n.times("RPC "+path); byGRPC+byRPC != 1 || byGRPC == 1 != withGRPC {
				t.Errorf("node requests: %d by gRPC, %d by RPC", byGRPC, byRPC)
			}
		})
	}
}

func TestErrorHasFormOfEachAPIAndIsReadOnceForEach(t *testing.T) {
	n := newRecordedNode(t)
	d := open(t, n, true)
	c := d.dial(t)
	path, message := recordedMessage(t, "grpc_account_unknown")
	for range 3 {
		if r := ask(t.Context(), c, path, unhex(t, message), "x-cosmos-block-height", "14"); status.Code(r.err) != codes.NotFound || r.height() != "14" {
			t.Errorf("%v, at block %q", r.err, r.height())
		}
		if got := d.query(t, path, message); !strings.Contains(got, `"code":22,"log":"rpc error: code = NotFound desc = account`) {
			t.Error(got)
		}
	}
	if byGRPC, byRPC := n.times("gRPC "+path), n.times("RPC "+path); byGRPC != 1 || byRPC != 1 {
		t.Errorf("node requests: %d by gRPC, %d by RPC", byGRPC, byRPC)
	}
}

func TestRPCAnswersWhileGRPCOfNodeIsDown(t *testing.T) {
	n := newRecordedNode(t)
	d := open(t, n, true)
	n.server.Stop()
	path, message := recordedMessage(t, "grpc_balance")
	r := ask(t.Context(), d.dial(t), path, unhex(t, message), "x-cosmos-block-height", "14")
	if r.err != nil || r.height() != "14" || n.times("RPC "+path) != 1 {
		t.Errorf("%v, at block %q", r.err, r.height())
	}
}

func TestGRPCAnswersWhileRPCOfNodeIsDown(t *testing.T) {
	n := newRecordedNode(t)
	d := open(t, n, true)
	n.rpc.Close()
	path, message := recordedMessage(t, "grpc_balance")
	if got := d.query(t, path, message); !strings.Contains(got, `"value":"ChUKBXN0YWtlEgw5OTk5OTk5OTkwMDA="`) {
		t.Error(got)
	}
}

func TestStartingNodeIsReadByRPC(t *testing.T) {
	n := newRecordedNode(t)
	path, message := recordedMessage(t, "grpc_gettx")
	n.byRPC[meaning(path, message, nil)] = strings.Replace(n.byRPC[meaning(path, message, []string{"14"})], `"height":"14"`, `"height":"746"`, 1) // it repeats what it was asked for
	d := open(t, n, true)
	n.mu.Lock()
	n.new = true
	n.mu.Unlock()
	if r := ask(t.Context(), d.dial(t), path, unhex(t, message)); r.err != nil || len(r.message) == 0 || r.height() != "746" {
		t.Errorf("%v, at block %q: %d bytes", r.err, r.height(), len(r.message))
	}
}

func TestTransactionIsSentToOneNodeOnce(t *testing.T) {
	n := newRecordedNode(t)
	d := open(t, n, true)
	path, message := recordedMessage(t, "grpc_broadcast_garbage")
	n.mu.Lock()
	delete(n.byGRPC, meaning(path, message, nil)) // it fails
	n.mu.Unlock()
	if r := ask(t.Context(), d.dial(t), path, unhex(t, message)); status.Code(r.err) != codes.Unimplemented {
		t.Error(r.err)
	}
	expect.Equal(t, n.times("gRPC "+path)+n.times("RPC broadcast"), 1, "times that it was sent")
}

func TestTransactionsAreWithinThePostRate(t *testing.T) {
	n := newRecordedNode(t)
	d := open(t, n, true, func(s *setup) {
		s.grpc.Posting = blocks.NewPosting(blocks.Posts{Rate: 1e-6, Burst: 1, MaxBody: largestMessage})
	})
	path, message := recordedMessage(t, "grpc_broadcast_garbage")
	c := d.dial(t)
	if r := ask(t.Context(), c, path, unhex(t, message)); r.err != nil {
		t.Errorf("first transaction: %v, want no error", r.err)
	}
	if r := ask(t.Context(), c, path, unhex(t, message)); status.Code(r.err) != codes.ResourceExhausted {
		t.Errorf("second transaction: %v, want %v", r.err, codes.ResourceExhausted)
	}
}

func TestUnknownMethodIsNotAnUnknownService(t *testing.T) {
	n := newRecordedNode(t)
	tests := map[string]string{
		"/cosmos.bank.v1beta1.Query/Nothing": "unknown method Nothing for service cosmos.bank.v1beta1.Query",
		"/cosmos.tank.v1beta1.Query/Balance": "unknown service cosmos.tank.v1beta1.Query",
	}
	for method := range tests {
		n.byRPC[meaning(method, "", nil)] = `{"response":{"code":6,"log":"unknown query path: unknown request","codespace":"sdk"}}`
	}
	c := open(t, n, false).dial(t)
	for method, want := range tests {
		if st := status.Convert(ask(t.Context(), c, method, nil).err); st.Code() != codes.Unimplemented || st.Message() != want {
			t.Errorf("%s is %v, want Unimplemented: %s", method, st, want)
		}
	}
}

func TestRPCSendsATransactionWithTheAnswerOfGRPC(t *testing.T) {
	n := newRecordedNode(t)
	path, message := recordedMessage(t, "grpc_broadcast_garbage")
	n.byRPC["broadcast_tx_syncAAE="] = `{"code":2,"data":"","log":"invalid length; tx parse error","codespace":"sdk","hash":"B413"}`
	d := open(t, n, false)
	want := append([]byte{0x0a, 6 + 5 + 2 + 32}, "\x12\x04B413\x1a\x03sdk\x20\x022\x1einvalid length; tx parse error"...)
	r := ask(t.Context(), d.dial(t), path, unhex(t, message))
	if r.err != nil || !bytes.Equal(r.message, want) || n.times("RPC broadcast_tx_sync") != 1 {
		t.Errorf("%v: %x, want %x", r.err, r.message, want)
	}
}

func TestStreamIsPassedOnBothWays(t *testing.T) {
	n := newRecordedNode(t)
	d := open(t, n, true)
	path, message := recordedMessage(t, "grpc_reflection_list")
	s := expect.Value(d.dial(t).NewStream(t.Context(), &google.StreamDesc{ServerStreams: true, ClientStreams: true}, path))(t)
	sent := unhex(t, message)
	var got []byte
	if err := errors.Join(s.SendMsg(&sent), s.RecvMsg(&got)); err != nil || len(got) == 0 {
		t.Errorf("%v: %d bytes", err, len(got))
	}
	if err := s.RecvMsg(&got); !errors.Is(err, io.EOF) {
		t.Error(err)
	}
}

func TestUnknownMethodOfNodeIsUnimplemented(t *testing.T) {
	d := open(t, newRecordedNode(t), false)
	r := ask(t.Context(), d.dial(t), "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", nil)
	if status.Code(r.err) != codes.Unimplemented || !strings.Contains(r.err.Error(), "no node's gRPC is configured") {
		t.Error(r.err)
	}
}

func TestResponsesAreNotCompressed(t *testing.T) {
	d := open(t, newRecordedNode(t), true)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	expect.NoError(t, w.Close())
	frame := "01" + fmt.Sprintf("%08x%x", packed.Len(), packed.Bytes())
	for sent, encoding := range map[string]string{frame: "gzip", "0000000000": ""} {
		x := exchange{Path: params, Raw: &sent, Metadata: map[string][]string{"x-cosmos-block-height": {"14"}, "grpc-accept-encoding": {"gzip"}}}
		if encoding != "" {
			x.Metadata["grpc-encoding"] = []string{encoding}
		}
		resp, body := x.send(t, "http://"+d.addr)
		if got := resp.Header.Get("Grpc-Encoding"); got != "" && got != "identity" || len(body) < 6 || body[0] != 0 {
			t.Errorf("the response to %s is in %q: %x, want no compression", sent, got, body)
		}
	}
}

func TestTooLargeMessageIsRefused(t *testing.T) {
	d := open(t, newRecordedNode(t), false)
	r := ask(t.Context(), d.dial(t), params, make([]byte, largestMessage+1))
	if status.Code(r.err) != codes.ResourceExhausted {
		t.Error(r.err)
	}
}

func TestBlockIsAwaitedUntilClientDeadline(t *testing.T) {
	d := open(t, newRecordedNode(t), false)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r := ask(ctx, d.dial(t), params, nil, "x-min-block-height", "747")
	if status.Code(r.err) != codes.DeadlineExceeded {
		t.Error(r.err)
	}
}

func TestAmbiguousHeightIsRefused(t *testing.T) {
	d := open(t, newRecordedNode(t), false)
	c := d.dial(t)
	for _, pairs := range [][]string{
		{"x-cosmos-block-height", "7", "x-cosmos-block-height", "7"}, {"x-min-block-height", "x"}, {"x-cosmos-block-height", "7", "x-min-block-height", "8"},
	} {
		if r := ask(t.Context(), c, params, nil, pairs...); status.Code(r.err) != codes.InvalidArgument || len(r.header.Get("x-cosmos-block-height")) > 0 {
			t.Errorf("%q: %v", pairs, r.err)
		}
	}
}

func TestValueOutsideStateIsNotCached(t *testing.T) {
	path, message := recordedMessage(t, "grpc_balance")
	for _, withGRPC := range []bool{false, true} {
		n := newRecordedNode(t)
		d := open(t, n, withGRPC, func(s *setup) { s.grpc.State.Rows = map[string]dialect.Row{path: {Class: blocks.Never}} })
		c := d.dial(t)
		for range 3 {
			if r := ask(t.Context(), c, path, unhex(t, message), "x-cosmos-block-height", "14"); r.err != nil || len(r.message) == 0 {
				t.Errorf("%v: %x, want the node's answer", r.err, r.message)
			}
		}
		expect.Equal(t, n.times("gRPC "+path)+n.times("RPC "+path), 3, "node requests (by gRPC: %v)", withGRPC)
	}
}
