package faults

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"
	"github.com/tidwall/gjson"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

const (
	hostileAddress = "127.0.0.2" // the model's clients are on 127.0.0.1
	hostileWorkers = 64
	hostileRate    = 2_000 // requests per second, sent from hostileAddress
	addressRate    = 1_000 // requests per second that the replicas allow for an address
	hostileWait    = 250 * time.Millisecond
	hostileKeep    = 100 // heights that the nodes keep
)

// hostile sends requests from one address. Other clients must not notice it, and what the replicas believe about the
// chain must be true two blocks later.
func (c *campaign) hostile(name, requests string, s setup, send func(*attacker, context.Context)) scenario {
	return scenario{name, s, false, []fault{{
		name:      fmt.Sprintf("%d %s, %d per second", c.requests, requests, hostileRate),
		withstood: true, unnoticed: true,
		cause: func(ctx context.Context, b *bed) {
			b.flood(ctx, send)
			rig.Pause(ctx, 2*blockTime)
			answered := 0.0
			for _, r := range b.replicas {
				rig.Check(b.believesTruth(ctx, r))
				answered += rig.Must(r.Metrics(ctx)).Sum("tipcache_proxy_requests_total")
			}
			if answered < float64(c.requests)/2 {
				rig.Check(fmt.Errorf("the replicas answered %.0f requests, so most of the %d hostile ones did not arrive", answered, c.requests))
			}
		},
	}}}
}

// flood sends the requests.
func (b *bed) flood(ctx context.Context, send func(*attacker, context.Context)) {
	local := hostileDialer()
	client := &http.Client{
		Transport:     &http.Transport{DialContext: local.DialContext, MaxIdleConnsPerHost: hostileWorkers},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	pace := rate.NewLimiter(hostileRate, hostileWorkers)
	var left atomic.Int64
	left.Store(int64(b.plan.requests))
	var all sync.WaitGroup
	for i := range hostileWorkers {
		t := b.replicas[i%len(b.replicas)]
		conn := rig.Must(grpc.NewClient("passthrough:///"+t.grpc, grpc.WithTransportCredentials(insecure.NewCredentials()),
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return local.DialContext(ctx, "tcp", addr) })))
		defer conn.Close()
		a := &attacker{b, t, client, conn, rand.New(rand.NewPCG(b.plan.seed, uint64(i)))} //nolint:gosec // a seeded draw
		all.Go(func() {
			for left.Add(-1) >= 0 && pace.Wait(ctx) == nil {
				bounded, cancel := context.WithTimeout(ctx, hostileWait)
				send(a, bounded)
				cancel()
			}
		})
	}
	all.Wait()
}

// believesTruth checks a replica's state against the simulated chain.
func (b *bed) believesTruth(ctx context.Context, r *replica) error {
	m, err := r.Metrics(ctx)
	if err != nil {
		return err
	}
	ready, err := rig.Get(ctx, r.Admin+"/readyz")
	pool, poolErr := rig.Get(ctx, r.URL+b.keys[1])
	wrapped := gjson.Get(pool, "msg").Exists() // as Story answers
	tip, lowest := int64(m.Sum("tipcache_node_tip_height")), int64(m.Sum("tipcache_node_lowest_height"))
	switch height := b.chain.Height(); {
	case err != nil:
		return fmt.Errorf("/readyz: %w", err)
	case len(gjson.Get(ready, "problems").Map()) > 0:
		return fmt.Errorf("/readyz reports %s", gjson.Get(ready, "problems").Raw)
	case tip < height-freshBlocks || tip > height:
		return fmt.Errorf("tip = %d, the chain is at %d", tip, height)
	case lowest > height-hostileKeep:
		return fmt.Errorf("lowest height = %d, but block %d can be read", lowest, height-hostileKeep)
	case poolErr != nil || wrapped == (b.chain.Dialect() == devnet.Cosmos):
		return fmt.Errorf("%s is not answered in the dialect %s: %.200s, %w", b.keys[1], b.chain.Dialect(), pool, poolErr)
	case m.Sum("tipcache_node_epochs_total") > 0:
		return fmt.Errorf("%.0f epochs began, but the chain was never rolled back", m.Sum("tipcache_node_epochs_total"))
	case m.Sum("tipcache_node_breaker_state") > 0:
		return fmt.Errorf("the breaker of a node that answers is open")
	}
	return nil
}

// An attacker draws requests.
type attacker struct {
	*bed
	target *replica
	client *http.Client
	calls  *grpc.ClientConn
	random *rand.Rand
}

// unknown requests an unknown path.
func (a *attacker) unknown(ctx context.Context) {
	a.do(ctx, http.MethodGet, a.target.URL+"/"+one(a, "staking", "dkg", "cosmos", a.noise())+"/"+a.noise()+"?x="+a.noise(), nil)
}

// send sends a random legal or illegal request over any API, and reads a part of the response.
func (a *attacker) send(ctx context.Context) {
	kinds := []func(ctx context.Context){a.read, a.read, a.batch, a.live, a.poll, a.callByPost, a.callByPost, a.callByURI, a.socket, a.call, a.callByWeb}
	kinds[a.random.IntN(len(kinds))](ctx)
}

func one[A any](a *attacker, all ...A) A { return all[a.random.IntN(len(all))] }

// height draws a height: near the tip, far from it, or none.
func (a *attacker) height() string {
	tip := a.chain.Height()
	return one(a, fmt.Sprint(tip), fmt.Sprint(tip+1), fmt.Sprint(tip+a.random.Int64N(1_000_000)), fmt.Sprint(a.random.Int64N(tip)+1), fmt.Sprint(-a.random.Int64N(1000)),
		"0", "1", "9223372036854775807", "9223372036854775808", "1e3", "0x10", "latest", " 7", "", "7,8")
}

// path draws a path of the REST API with its query.
func (a *attacker) path() string {
	path := one(a, a.keys[a.random.IntN(len(a.keys))], a.keys[a.random.IntN(len(a.keys))], "/staking/validators/"+a.noise(), "/slashing/signing_infos/0x02"+strings.Repeat("ab", 32),
		"/staking/validators/0x"+strings.Repeat("0", 40), "/"+a.noise(), "/staking//pool/", "/cosmos/base/tendermint/v1beta1/blocks/"+url.PathEscape(a.height()))
	query := url.Values{}
	for range a.random.IntN(4) {
		query.Set(one(a, "pagination.key", "pagination.limit", "pagination.offset", "pagination.reverse", "status", "x-block-height", "x-min-block-height", "since", a.noise()),
			one(a, a.height(), a.noise(), base64.StdEncoding.EncodeToString([]byte(a.noise()))))
	}
	if len(query) == 0 {
		return path
	}
	if strings.Contains(path, "?") {
		return path + "&" + query.Encode()
	}
	return path + "?" + query.Encode()
}

// noise draws a short text of any bytes, escaped.
func (a *attacker) noise() string {
	raw := make([]byte, a.random.IntN(12)+1)
	for i := range raw {
		raw[i] = byte(a.random.IntN(256))
	}
	return url.PathEscape(string(raw))
}

// do sends a request by HTTP with random headers, and reads at most 64 KiB of the response.
func (a *attacker) do(ctx context.Context, method, target string, body []byte, headers ...string) {
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return // not a URL
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	for range a.random.IntN(3) {
		r.Header.Set(one(a, "X-Block-Height", "X-Min-Block-Height", "X-Min-Evm-Block", "X-Session", "If-None-Match", "Cookie", "X-Forwarded-For", "Range"),
			one(a, a.height(), a.height()+".0123456789ab", "tipcache-session-"+a.chain.ChainID()+"="+a.height(), "10.0.0.1", a.noise()))
	}
	resp, err := a.client.Do(r)
	if err != nil {
		return // refused, or timed out
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
}

func (a *attacker) read(ctx context.Context) {
	a.do(ctx, one(a, "GET", "GET", "GET", "GET", "HEAD", "POST", "DELETE", "OPTIONS", "QUERY", "FOO"), a.target.URL+a.path(), nil)
}

func (a *attacker) batch(ctx context.Context) {
	a.do(ctx, "GET", a.target.URL+"/batch?path="+url.QueryEscape(a.path())+"&path="+url.QueryEscape(a.path()), nil)
}

func (a *attacker) live(ctx context.Context) {
	a.do(ctx, "GET", a.target.URL+"/live?stream.blocks="+one(a, "true", "false")+"&path="+url.QueryEscape(a.path()), nil,
		"Accept", "text/event-stream", "Last-Event-ID", one(a, "0", a.height(), a.noise()))
}

func (a *attacker) poll(ctx context.Context) {
	a.do(ctx, "GET", a.target.URL+one(a, a.keys...)+one(a, "?", "&")+"since="+one(a, "0", a.height()+".0123456789ab", a.noise()), nil)
}

// rpcCall draws a call of the CometBFT RPC.
func (a *attacker) rpcCall() map[string]any {
	params := map[string]any{}
	method := one(a, "abci_query", "abci_query", "block", "commit", "header", "validators", "block_results", "consensus_params", "tx", "tx_search", "status", "genesis", "broadcast_tx_sync", "unsafe_flush_mempool", a.noise())
	for range a.random.IntN(4) {
		params[one(a, "height", "path", "data", "prove", "hash", "tx", "query", "page", "per_page")] =
			one[any](a, a.height(), a.random.Int64(), true, nil, a.noise(), "/store/staking/key", "/store/bank/key", "/cosmos.bank.v1beta1.Query/Balance", "/app/version", "0102")
	}
	if method == "abci_query" { // of a store at a future height
		params["path"], params["height"] = one(a, "/store/staking/key", "/store/acc/key", "/cosmos.staking.v1beta1.Query/Params"), a.height()
	}
	return map[string]any{"jsonrpc": "2.0", "id": one[any](a, 1, "x", nil, 1.5, []int{1}), "method": method, "params": params}
}

func (a *attacker) callByPost(ctx context.Context) {
	body, _ := json.Marshal(one[any](a, a.rpcCall(), a.rpcCall(), []any{a.rpcCall(), a.rpcCall()}, a.noise()))
	a.do(ctx, "POST", "http://"+a.target.rpc, body[:len(body)-one(a, 0, 0, 0, 1)])
}

func (a *attacker) callByURI(ctx context.Context) {
	call, query := a.rpcCall(), url.Values{}
	for name, value := range call["params"].(map[string]any) { //nolint:forcetypeassert // rpcCall's
		query.Set(name, one(a, fmt.Sprint(value), fmt.Sprintf("%q", fmt.Sprint(value))))
	}
	a.do(ctx, "GET", fmt.Sprintf("http://%s/%s?%s", a.target.rpc, call["method"], query.Encode()), nil)
}

func (a *attacker) socket(ctx context.Context) {
	conn, _, err := websocket.Dial(ctx, "ws://"+a.target.rpc+"/websocket", &websocket.DialOptions{HTTPClient: a.client}) //nolint:bodyclose // the library closes it
	if err != nil {
		return // refused
	}
	defer conn.CloseNow() //nolint:errcheck // nothing follows
	query := one(a, "tm.event='NewBlock'", "tm.event='Tx' AND tx.height>"+a.height(), "x CONTAINS '"+a.noise()+"'", a.noise())
	subscribe, _ := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": "subscribe", "params": map[string]any{"query": query}})
	call, _ := json.Marshal(a.rpcCall())
	if conn.Write(ctx, websocket.MessageText, one(a, subscribe, call, []byte(a.noise()))) == nil {
		_, _, _ = conn.Read(ctx)
	}
}

// rawCodec sends messages as they are.
type rawCodec struct{}

func (rawCodec) Name() string                  { return "proto" }
func (rawCodec) Marshal(v any) ([]byte, error) { return *v.(*[]byte), nil } //nolint:forcetypeassert // call's
func (rawCodec) Unmarshal(data []byte, v any) error {
	*v.(*[]byte) = bytes.Clone(data) //nolint:forcetypeassert // call's
	return nil
}

func (a *attacker) method() string {
	return one(a, "/cosmos.bank.v1beta1.Query/Balance", "/cosmos.staking.v1beta1.Query/Params", "/cosmos.staking.v1beta1.Query/Validators", "/cosmos.tx.v1beta1.Service/Simulate", "/cosmos.base.tendermint.v1beta1.Service/GetLatestBlock", "/no.such.Query/Thing")
}

func (a *attacker) call(ctx context.Context) {
	ctx = metadata.AppendToOutgoingContext(ctx, one(a, "x-cosmos-block-height", "x-min-block-height", "x-other"), strings.TrimSpace(one(a, a.height(), "1", "2")))
	request, reply := []byte(a.noise()), []byte(nil)
	_ = a.calls.Invoke(ctx, a.method(), &request, &reply, grpc.ForceCodec(rawCodec{})) // usually refused
}

func (a *attacker) callByWeb(ctx context.Context) {
	message := []byte(a.noise())
	frame := append([]byte{one[byte](a, 0, 0, 0, 1), 0, 0, one[byte](a, 0, 0, 255), byte(len(message))}, message...)
	a.do(ctx, "POST", a.target.URL+a.method(), frame, "Content-Type", one(a, "application/grpc-web+proto", "application/grpc-web-text"), "X-Cosmos-Block-Height", a.height())
}
