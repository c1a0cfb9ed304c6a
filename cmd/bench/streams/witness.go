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

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// A witness is a client with a WebSocket, which reads at once what an event tells of.
type witness struct {
	*counted
	rpc, rest  string // URLs
	blocks, tx int64  // heights of the last events
	turn       int    // of the interfaces
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
		return w.read(ctx, height, "")
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
		return w.read(ctx, height, string(sum[:]))
	}
	return nil
}

// read reads the transaction with a hash, or for none the state of a block, through the
// interface whose turn it is.
func (w *witness) read(ctx context.Context, height int64, hash string) error {
	body, url, want := "", w.rpc, ""
	w.turn++
	switch {
	case hash == "" && w.turn%2 == 0:
		url = w.rest + "/cosmos/bank/v1beta1/balances/" + cosmos.WideDelegator + "?pagination.limit=1"
	case hash == "":
		body = `{"jsonrpc":"2.0","id":` + strconv.Itoa(w.turn) + `,"method":"abci_query","params":{"path":"/cosmos.staking.v1beta1.Query/Pool","data":""}}`
	case w.turn%2 == 0:
		body, want = fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tx","params":{"hash":%q}}`, base64.StdEncoding.EncodeToString([]byte(hash))), `"tx_result"`
	default:
		body, want = fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tx_search","params":{"query":"tx.hash='%X'"}}`, hash), `"total_count":"1"`
	}
	began := time.Now()
	at, stale, answer, err := ask(ctx, url, body)
	if err != nil {
		return err
	}
	missed := ""
	if hash == "" && at < height || !strings.Contains(answer, want) {
		missed = fmt.Sprintf("block %d was told of, and %s %s was answered at %d: %.300s", height, url, body, at, answer)
	}
	w.pair(time.Since(began), missed, stale)
	return nil
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
