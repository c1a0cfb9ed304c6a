package streams

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
	"github.com/tipcache/tipcache/upstream/node"
)

// A witness is a client with a WebSocket, which reads at once what an event tells of.
type witness struct {
	*counted
	rpc, rest  string // URLs
	grpc       *grpc.ClientConn
	blocks, tx int64 // heights of the last events
	turn       int   // of the interfaces, which all are read after one event of each kind in turn
}

// attend reads events until ctx ends.
func (w *witness) attend(ctx context.Context) error {
	conn, _, err := websocket.Dial(ctx, w.rpc+"/websocket", nil) //nolint:bodyclose // it is the connection's
	if err != nil {
		return err
	}
	defer func() { _ = conn.CloseNow() }()
	conn.SetReadLimit(1 << 24)
	for id, kind := range []string{"NewBlock", "Tx"} {
		call := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"subscribe","params":{"query":"tm.event='%s'"}}`, id, kind)
		if err := conn.Write(ctx, websocket.MessageText, []byte(call)); err != nil {
			return err
		}
	}
	for {
		_, message, err := conn.Read(ctx)
		if err == nil {
			err = w.see(ctx, gjson.GetBytes(message, "result.data"))
		}
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// see reads what an event tells of. Answers to subscribe have no event.
func (w *witness) see(ctx context.Context, data gjson.Result) error {
	switch value := data.Get("value"); data.Get("type").String() {
	case "tendermint/event/NewBlock":
		height := value.Get("block.header.height").Int()
		if err := w.follows(&w.blocks, height); err != nil {
			return err
		}
		return w.read(ctx, height, w.questions())
	case "tendermint/event/Tx":
		height := value.Get("TxResult.height").Int()
		if err := w.follows(&w.tx, height); err != nil {
			return err
		}
		raw, err := base64.StdEncoding.DecodeString(value.Get("TxResult.tx").String())
		if err != nil {
			return err
		}
		sum := sha256.Sum256(raw)
		return w.read(ctx, height, w.searches(sum[:]))
	}
	return nil
}

// A question is what is read through an interface.
type question struct{ method, url, body, want string }

// questions read the state of a block, through each interface that has it.
func (w *witness) questions() []question {
	return []question{
		{url: w.rpc, body: `{"jsonrpc":"2.0","id":1,"method":"abci_query","params":{"path":"/cosmos.staking.v1beta1.Query/Pool","data":""}}`},
		{url: w.rest + "/cosmos/bank/v1beta1/balances/" + cosmos.WideDelegator + "?pagination.limit=1"},
		{method: "/cosmos.staking.v1beta1.Query/Params"},
	}
}

// searches find the transaction with a hash, through each interface.
func (w *witness) searches(hash []byte) []question {
	hex := fmt.Sprintf("%X", hash)
	return []question{
		{url: w.rpc, body: fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tx","params":{"hash":%q}}`, base64.StdEncoding.EncodeToString(hash)), want: `"tx_result"`},
		{url: w.rpc, body: fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tx_search","params":{"query":"tx.hash='%s'"}}`, hex), want: `"total_count":"1"`},
		{url: w.rest + "/cosmos/tx/v1beta1/txs/" + hex, want: hex},
		{method: "/cosmos.tx.v1beta1.Service/GetTx", body: string(protowire.AppendString([]byte{1<<3 | byte(protowire.BytesType)}, hex)), want: hex},
	}
}

// read reads what an event of a block tells of, through the interface whose turn it is.
func (w *witness) read(ctx context.Context, height int64, all []question) error {
	w.turn++
	q := all[w.turn/2%len(all)]
	began := time.Now()
	at, stale, answer, err := w.ask(ctx, q)
	if err != nil {
		return err
	}
	missed := ""
	if q.want == "" && at < height || !strings.Contains(answer, q.want) {
		missed = fmt.Sprintf("block %d was told of, and %+v was answered at %d: %.300s", height, q, at, answer)
	}
	w.pair(time.Since(began), missed, stale)
	return nil
}

// ask asks by gRPC where a method is named, else by HTTP. It says at which block was answered,
// and whether that is marked as stale.
func (w *witness) ask(ctx context.Context, q question) (height int64, stale bool, answer string, err error) {
	if q.method == "" {
		return ask(ctx, q.url, q.body)
	}
	message, reply, header := []byte(q.body), []byte(nil), metadata.MD{}
	err = w.grpc.Invoke(ctx, q.method, &message, &reply, grpc.ForceCodecV2(node.Bytes{}), grpc.Header(&header))
	if err != nil && ctx.Err() == nil {
		reply, err = []byte(err.Error()), nil // an answer, as a status of HTTP is one
	}
	height, _ = strconv.ParseInt(strings.Join(header.Get("x-cosmos-block-height"), ""), 10, 64)
	return height, strings.Contains(strings.Join(header.Get("cache-status"), ""), "stale"), string(reply), err
}

// asking keeps the connections of all witnesses.
var asking = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}

// ask makes a request, by POST where it has a body, and says at which block it was answered,
// and whether that is marked as stale.
func ask(ctx context.Context, url, body string) (height int64, stale bool, answer string, err error) {
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return 0, false, "", err
	}
	response, err := asking.Do(request)
	if err != nil {
		return 0, false, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	height, _ = strconv.ParseInt(response.Header.Get("X-Block-Height"), 10, 64)
	return height, strings.Contains(response.Header.Get("Cache-Status"), "stale"), string(text), err
}
