package socket_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/rpc/socket"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/events"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/heights/tip"
	"github.com/tipcache/tipcache/upstream/leaktest"
	"github.com/tipcache/tipcache/upstream/node/nodetest"
)

func TestMain(m *testing.M) {
	gin.SetMode(gin.ReleaseMode)
	leaktest.Main(m)
}

// still is a chain that does not move.
type still struct{}

func (still) ChainID() string        { return "chain-1" }
func (still) Tip() tip.Tip           { return tip.Tip{Height: 100} }
func (still) Moved() <-chan struct{} { return nil }
func (still) HashOf(int64) string    { return "" }

// methods answer calls by name.
type methods func(r *http.Request, method string, params json.RawMessage) []byte

func (m methods) Call(r *http.Request, method string, params json.RawMessage) socket.Answer {
	return socket.Answer{Member: m(r, method, params), Release: func() {}}
}

func (methods) IsExclusive(method string) bool { return method == "write" }

func (methods) Subscription(_ *http.Request, _ string, do func() int) []byte { do(); return nil }

// serve starts a handler, which is drained at the end.
func serve(t *testing.T, o socket.Options) (d *socket.Handler, url string) {
	t.Helper()
	if o.Feed == nil {
		o.Feed = events.New(events.Options{Heights: still{}, Nodes: func() []events.Node { return nil }})
	}
	if o.Methods == nil {
		o.Methods = methods(nil)
	}
	if o.Stack == nil {
		o.Stack = web.New(web.Options{}, nil)
	}
	d = socket.New(o)
	engine := gin.New() // as the handler of the RPC has it
	engine.NoRoute(func(c *gin.Context) { answer(d, c.Writer, c.Request) })
	server := httptest.NewServer(engine)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		d.Drain(ctx)
		server.Close()
	})
	return d, server.URL
}

// answer serves a request. The response to a refused one is its text.
func answer(d *socket.Handler, w http.ResponseWriter, r *http.Request) {
	if err := d.Serve(w, r); err != nil {
		f := failure.Of(err)
		http.Error(w, f.Public, f.Status)
	}
}

func dial(t *testing.T, url string) *websocket.Conn {
	t.Helper()
	conn, _, err := websocket.Dial(t.Context(), url, nil)
	expect.NoError(t, err)
	conn.SetReadLimit(1 << 24)
	t.Cleanup(func() { _ = conn.CloseNow() })
	return conn
}

func send(t *testing.T, conn *websocket.Conn, message string) {
	t.Helper()
	kind := websocket.MessageText
	if rest, binary := strings.CutPrefix(message, "(binary) "); binary {
		kind, message = websocket.MessageBinary, rest
	}
	expect.NoError(t, conn.Write(t.Context(), kind, []byte(message)))
}

func receive(t *testing.T, conn *websocket.Conn) string {
	t.Helper()
	_, message, err := conn.Read(t.Context())
	expect.NoError(t, err)
	return string(message)
}

// recorded answers calls as a node did in a session. It finds an answer by the id that the session's calls have.
func recorded(received []string) methods {
	return func(_ *http.Request, method string, params json.RawMessage) []byte {
		var height struct{ Height string }
		_ = json.Unmarshal(params, &height)
		for _, text := range received {
			id, member, _ := strings.Cut(strings.TrimPrefix(text, `{"jsonrpc":"2.0","id":`), ",")
			if method+height.Height == map[string]string{"1": "health", `"a"`: "block5", "2": "block99999999", "3": "nope", "4": "blockabc"}[id] {
				return []byte(strings.TrimSuffix(member, "}"))
			}
		}
		return nil
	}
}

func TestSessionsBehaveAsWithNode(t *testing.T) {
	type recording struct {
		Name           string
		Sent, Received []string
	}
	for _, session := range nodetest.Recorded[recording](t, "testdata/sessions.jsonl") {
		t.Run(session.Name, func(t *testing.T) {
			_, url := serve(t, socket.Options{Methods: recorded(session.Received), Subscriptions: 5})
			conn := dial(t, url)
			for _, message := range session.Sent {
				send(t, conn, message)
			}
			send(t, conn, `{"id":"end","method":"unsubscribe","params":{"query":"no.such='x'"}}`)
			got := []string{}
			for {
				message := receive(t, conn)
				if strings.Contains(message, `"id":"end"`) {
					break
				}
				got = append(got, message)
			}
			expect.NoDiff(t, got, session.Received, "answers")
		})
	}
}

func TestCallWithoutRequiredParametersGetsNodesError(t *testing.T) {
	_, url := serve(t, socket.Options{Methods: recorded(nil)})
	conn := dial(t, url)
	send(t, conn, `{"id":1,"method":"block"}`)
	const want = `{"jsonrpc":"2.0","id":-1,"error":{"code":-32603,"message":"Internal error","data":"WSJSONRPC: reflect: Call with too few input arguments"}}`
	expect.Equal(t, receive(t, conn), want, "response")
}

func TestInvalidWebSocketHandshakeIsRefusedAsByNode(t *testing.T) {
	_, url := serve(t, socket.Options{Stack: web.New(web.Options{Settings: web.Settings{CORSOrigins: []string{"https://good.example"}}}, nil)})
	response := expect.Value(http.Get(url))(t)
	defer response.Body.Close()
	expect.Equal(t, response.StatusCode, http.StatusBadRequest, "status of a GET without an upgrade")
	expect.Equal(t, response.Header.Get("Sec-Websocket-Version"), "13", "Sec-Websocket-Version of a GET without an upgrade")
	_, response, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"https://evil.example"}}})
	if err == nil || response.StatusCode != http.StatusForbidden {
		t.Errorf("Dial from another origin = %v, want status 403", err)
	}
}

// limited refuses messages of no method and counts them.
type limited struct {
	methods

	refused atomic.Int64
}

func (l *limited) Subscription(_ *http.Request, method string, do func() int) []byte {
	if method == "" {
		l.refused.Add(1)
		return []byte(`"error":7`)
	}
	do()
	return nil
}

func TestMessagesThatAreNoCallsAreLimited(t *testing.T) {
	l := &limited{}
	_, url := serve(t, socket.Options{Methods: l})
	conn := dial(t, url)
	send(t, conn, `{"method":"status"}`) // a notification
	send(t, conn, "no call")
	expect.Equal(t, receive(t, conn), `{"jsonrpc":"2.0","error":7}`, "answer")
	expect.Equal(t, l.refused.Load(), 2, "limited messages")
}

func TestCallsAreAnsweredInOrder(t *testing.T) {
	second := make(chan struct{})
	_, url := serve(t, socket.Options{Methods: methods(func(_ *http.Request, method string, _ json.RawMessage) []byte {
		if method == "slow" {
			<-second
		}
		return []byte(`"result":"` + method + `"`)
	})})
	conn := dial(t, url)
	for i, method := range []string{"slow", "quick", "slow", "quick"} {
		send(t, conn, fmt.Sprintf(`{"id":%d,"method":%q,"params":{}}`, i, method))
	}
	close(second)
	for i, method := range []string{"slow", "quick", "slow", "quick"} {
		expect.Equal(t, receive(t, conn), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":%q}`, i, method), "answer %d", i)
	}
}

// Queued calls are read concurrently. A write runs alone.
func TestReadsOverlapAndWritesDoNot(t *testing.T) {
	var running atomic.Int32
	concurrent := make(chan struct{}) // closed when 8 reads run
	_, url := serve(t, socket.Options{Methods: methods(func(_ *http.Request, method string, params json.RawMessage) []byte {
		n := running.Add(1)
		defer running.Add(-1)
		switch {
		case method == "write":
			return fmt.Appendf(nil, `"result":%d`, n)
		case n == 8:
			close(concurrent)
		}
		<-concurrent
		return append([]byte(`"result":`), params...)
	})})
	conn := dial(t, url)
	for i := range 20 {
		method := "read"
		if i >= 8 && i < 12 {
			method = "write"
		}
		send(t, conn, fmt.Sprintf(`{"id":%d,"method":"%s","params":[%d]}`, i, method, i))
	}
	for i := range 20 {
		want := fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":[%d]}`, i, i)
		if i >= 8 && i < 12 {
			want = fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":1}`, i)
		}
		expect.Equal(t, receive(t, conn), want, "answer %d", i)
	}
}

// twoCalls answer the first call at block 8. They answer the second one at block 7 if it is read at the same time, and at
// block 8 if it is read again.
type twoCalls struct {
	methods
	second chan struct{} // closed when the second call was read
	calls  atomic.Int32
	again  atomic.Int32
}

func (c *twoCalls) Call(_ *http.Request, method string, _ json.RawMessage) socket.Answer {
	c.calls.Add(1)
	eighth := socket.Answer{Member: []byte(`"result":8`), Height: 8, Release: func() {}}
	if method == "first" {
		<-c.second
		return eighth
	}
	close(c.second)
	return socket.Answer{Member: []byte(`"result":7`), Height: 7, Release: func() {}, Again: func() socket.Answer { c.again.Add(1); return eighth }}
}

func TestAnswersNeverGoBackToEarlierBlock(t *testing.T) {
	c := &twoCalls{second: make(chan struct{})}
	_, url := serve(t, socket.Options{Methods: c})
	conn := dial(t, url)
	send(t, conn, `{"id":1,"method":"first","params":{}}`)
	send(t, conn, `{"id":2,"method":"second","params":{}}`)
	for id := 1; id <= 2; id++ {
		expect.Equal(t, receive(t, conn), fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"result":8}`, id), "answer %d", id)
	}
	expect.Equal(t, c.calls.Load(), 2, "calls")
	expect.Equal(t, c.again.Load(), 1, "repeated reads")
}

func TestTooLargeMessageEndsConnection(t *testing.T) {
	_, url := serve(t, socket.Options{Message: 100})
	conn := dial(t, url)
	send(t, conn, strings.Repeat("x", 101))
	if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusMessageTooBig {
		t.Errorf("connection ended with %v, want status %d", err, websocket.StatusMessageTooBig)
	}
}

// heldCalls answer when they are released.
type heldCalls struct {
	methods
	released chan struct{}
}

func (c heldCalls) Call(*http.Request, string, json.RawMessage) socket.Answer {
	<-c.released
	return socket.Answer{Member: []byte(`"result":1`), Release: func() {}}
}

func TestClientWithFullQueueIsNotDisconnectedByPings(t *testing.T) {
	t.Parallel()
	const calls = 110 // more than the queue holds
	c := heldCalls{released: make(chan struct{})}
	_, url := serve(t, socket.Options{Methods: c, Ping: time.Millisecond, Pong: 2 * time.Second})
	pings := make(chan struct{}, 100)
	conn, _, err := websocket.Dial(t.Context(), url, &websocket.DialOptions{OnPingReceived: func(context.Context, []byte) bool {
		select {
		case pings <- struct{}{}:
		default:
		}
		return true
	}})
	expect.NoError(t, err)
	defer conn.CloseNow()
	answers := make(chan error)
	go func() {
		for range calls {
			_, _, err := conn.Read(t.Context())
			answers <- err
		}
	}()
	for i := range calls {
		send(t, conn, fmt.Sprintf(`{"id":%d,"method":"a","params":{}}`, i))
	}
	for len(pings) > 0 { // received before the queue was full
		<-pings
	}
	for range 2 {
		<-pings
	}
	close(c.released)
	for range calls {
		expect.NoError(t, <-answers)
	}
}

func TestClientWithoutPongIsDisconnected(t *testing.T) {
	_, url := serve(t, socket.Options{Ping: time.Millisecond, Pong: time.Millisecond})
	conn := expect.Value(upgrade(t, url))(t)
	if frames, _ := io.ReadAll(conn); bytes.Contains(frames, []byte{0x88}) {
		t.Errorf("frames = %q, want no close frame", frames)
	}
}

// block is a NewBlock event of a node.
const block = `{"query":"q","data":{"type":"tendermint/event/NewBlock","value":{"block":{"header":{"chain_id":"chain-1","height":"101"},"data":{"txs":[]}},"block_id":{"hash":"AB"},"result_finalize_block":{"app_hash":"x"}}},"events":{"tm.event":["NewBlock"]}}`

// A moving chain is at block 100 until the feed reads its stream, which delivers block 101, and then at block 101.
type moving struct {
	still
	reading chan struct{}
}

func (m moving) Tip() tip.Tip {
	select {
	case <-m.reading:
		return tip.Tip{Height: 101}
	default:
		return tip.Tip{Height: 100}
	}
}

func (m moving) Next(ctx context.Context) (json.RawMessage, error) {
	select {
	case <-m.reading:
		<-ctx.Done()
		return nil, ctx.Err()
	default:
		close(m.reading)
		return json.RawMessage(block), nil
	}
}

func (moving) Close() {}

func TestEventsHaveIDAndQueryOfTheirSubscription(t *testing.T) {
	chain := moving{reading: make(chan struct{})}
	feed := newFeed(chain, func() events.Stream { return chain })
	stack := web.New(web.Options{}, nil)
	_, url := serve(t, socket.Options{Feed: feed, Stack: stack})
	conn := dial(t, url)
	for _, call := range []string{
		`{"id":7,"method":"subscribe","params":["tm.event='NewBlockHeader'"]}`,
		`{"id":1e30,"method":"subscribe","params":["tm.event = 'NewBlockHeader' AND tm.event EXISTS"]}`,
		`{"id":"a<b","method":"subscribe","params":{"query":" tm.event = 'NewBlockEvents' AND tm.event EXISTS"}}`,
	} {
		send(t, conn, call)
		receive(t, conn)
	}
	run(t, feed)
	want := []string{ // in any order
		`{"jsonrpc":"2.0","id":7,"result":{"query":"tm.event='NewBlockHeader'","data":{"type":"tendermint/event/NewBlockHeader","value":{"header":{"chain_id":"chain-1","height":"101"}}},"events":{"tm.event":["NewBlockHeader"]}}}`,
		`{"jsonrpc":"2.0","id":1e30,"result":{"query":"tm.event = 'NewBlockHeader' AND tm.event EXISTS","data":{"type":"tendermint/event/NewBlockHeader","value":{"header":{"chain_id":"chain-1","height":"101"}}},"events":{"tm.event":["NewBlockHeader"]}}}`,
		`{"jsonrpc":"2.0","id":"a\u003cb","result":{"query":" tm.event = 'NewBlockEvents' AND tm.event EXISTS","data":{"type":"tendermint/event/NewBlockEvents","value":{"height":"101","events":null,"num_txs":"0"}},"events":{"tm.event":["NewBlockEvents"]}}}`,
	}
	got := []string{receive(t, conn), receive(t, conn), receive(t, conn)}
	slices.Sort(got)
	slices.Sort(want)
	expect.NoDiff(t, got, want, "events")
	height, _ := stack.NotifiedBlock(&http.Request{RemoteAddr: "127.0.0.1:1"}, 0)
	expect.Equal(t, height, 101, "height that the client was notified about")
}

func TestSubscriptionsWithLongIDsOrParametersAreRefused(t *testing.T) {
	_, feed := newDriven()
	_, url := serve(t, socket.Options{Feed: feed})
	conn := dial(t, url)
	for call, want := range map[string]string{
		`{"id":"` + strings.Repeat("x", 1<<10) + `","method":"subscribe","params":["a=1"]}`:           "the id of a subscription may have at most 1024 bytes",
		`{"id":1,"method":"subscribe","params":[` + strings.Repeat("1,", 64<<10) + `1]}`:              "maximum query length exceeded",
		`{"id":1,"method":"unsubscribe","params":{"x":"` + strings.Repeat("x", 64<<10) + `"}}`:        "maximum query length exceeded",
		`{"id":"` + strings.Repeat("x", 1<<10-2) + `","method":"subscribe","params":{"query":"a=1"}}`: `"result":{}`,
	} {
		send(t, conn, call)
		if got := receive(t, conn); !strings.Contains(got, want) {
			t.Errorf("answer to %.60s… = %.1200s, want %s", call, got, want)
		}
	}
}

func TestMessageWithoutAnEndEndsTheConnection(t *testing.T) {
	c := expect.Value(cache.New(cache.Options{}))(t)
	t.Cleanup(func() { c.Close() })
	_, url := serve(t, socket.Options{Read: 100 * time.Millisecond, Stack: web.New(web.Options{}, c)})
	conn := dial(t, url)
	w := expect.Value(conn.Writer(t.Context(), websocket.MessageText))(t)
	_, _ = w.Write(make([]byte, 256<<10))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if _, _, err := conn.Read(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("Read = %v, want the end of the connection", err)
	}
	expect.EventuallyEqual(t, "release of the message", c.Account().Used, 0)
}

// A driven chain makes a block for each text that a test sends, with the text in the header. An empty text makes no block,
// but is received only when the feed has subscribed.
type driven struct {
	still
	height atomic.Int64
	next   chan string
}

func newDriven() (*driven, *events.Feed) {
	d := &driven{next: make(chan string)}
	d.height.Store(100)
	return d, newFeed(d, func() events.Stream { return d })
}

// newFeed returns the feed of a chain with one node, which streams its blocks but answers no calls.
func newFeed(chain events.Heights, subscribe func() events.Stream) *events.Feed {
	return events.New(events.Options{Heights: chain, Nodes: func() []events.Node {
		return []events.Node{{
			NoEvents:  func() error { return nil },
			Fit:       func() bool { return true },
			Subscribe: func(context.Context, string) (events.Stream, error) { return subscribe(), nil },
			Call: func(context.Context, string, any, int64) (json.RawMessage, error) {
				return nil, errors.New("no block can be read")
			},
		}}
	}})
}

// run runs a feed until the end of the test.
func run(t *testing.T, feed *events.Feed) {
	var runs sync.WaitGroup
	runs.Go(func() { _ = feed.Run(t.Context()) })
	t.Cleanup(runs.Wait)
}

func (d *driven) Tip() tip.Tip { return tip.Tip{Height: d.height.Load()} }
func (*driven) Close()         {}

// Next returns the next block.
func (d *driven) Next(ctx context.Context) (json.RawMessage, error) {
	for {
		select {
		case text := <-d.next:
			if text == "" {
				continue
			}
			header := fmt.Sprintf(`"text":%q,"last_block_id":{"hash":"AB"},"height":"%d"`, text, d.height.Add(1))
			return json.RawMessage(strings.Replace(block, `"height":"101"`, header, 1)), nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func TestEventsOfAnySizeArriveCompleteBetweenPings(t *testing.T) {
	chain, feed := newDriven()
	_, url := serve(t, socket.Options{Feed: feed, Ping: time.Millisecond, Pong: time.Minute})
	conn := dial(t, url)
	send(t, conn, `{"id":7,"method":"subscribe","params":["tm.event='NewBlockHeader'"]}`)
	receive(t, conn)
	run(t, feed)
	chain.next <- ""
	for _, size := range []int{1, 1000, 64 << 10, 1 << 20} {
		text := strings.Repeat("x", size)
		chain.next <- text
		if got := receive(t, conn); gjson.Get(got, "result.data.value.header.text").String() != text || !strings.HasPrefix(got, `{"jsonrpc":"2.0","id":7,`) {
			t.Errorf("event with %d bytes of text = %.200s, want id 7 and the text", size, got)
		}
	}
}

// A hostile client gets an error or is disconnected, and the other client receives its events.
func TestHostileClientDoesNotAffectOthers(t *testing.T) {
	for _, tt := range []struct {
		name string
		act  func(t *testing.T, conn *websocket.Conn)
		last string // in the hostile client's last message; "" if it is disconnected
	}{
		{"subscribes 10,000 times", func(t *testing.T, conn *websocket.Conn) {
			for i := range 10_000 {
				send(t, conn, fmt.Sprintf(`{"id":%d,"method":"subscribe","params":["a.b='%d'"]}`, i, i))
				if got := receive(t, conn); strings.Contains(got, "error") != (i >= socket.DefaultSubscriptions) {
					t.Fatalf("answer to subscription %d = %s, want an error: %t", i, got, i >= socket.DefaultSubscriptions)
				}
			}
			send(t, conn, `{"id":1,"method":"subscribe","params":["more.of='them'"]}`)
		}, "max_subscriptions_per_client 20 reached"},
		{"sends a query that is too long", func(t *testing.T, conn *websocket.Conn) {
			send(t, conn, `{"id":1,"method":"subscribe","params":["a='`+strings.Repeat("x", 600)+`'"]}`)
		}, "maximum query length exceeded"},
		{"sends garbage", func(t *testing.T, conn *websocket.Conn) { send(t, conn, `{{{`) }, "-32700"},
		{"nests deeply", func(t *testing.T, conn *websocket.Conn) {
			send(t, conn, `{"id":`+strings.Repeat("[", 100_000)+`}`)
		}, "-32700"},
		{"reads nothing", func(t *testing.T, conn *websocket.Conn) {
			send(t, conn, `{"id":1,"method":"subscribe","params":["tm.event='NewBlockHeader'"]}`)
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			chain, feed := newDriven()
			metrics := prometheus.NewRegistry()
			_, url := serve(t, socket.Options{Feed: feed, Write: 3 * time.Second, Registerer: metrics})
			good, hostile := dial(t, url), dial(t, url)
			send(t, good, `{"id":1,"method":"subscribe","params":["tm.event='NewBlockHeader'"]}`)
			receive(t, good)
			tt.act(t, hostile)
			run(t, feed)
			chain.next <- ""
			size := 100
			if tt.last == "" {
				size = 1 << 20 // more than the connection holds
			}
			for i := range 20 {
				chain.next <- strings.Repeat("x", size)
				if got := receive(t, good); len(got) < size {
					t.Fatalf("event %d = %.200s, want at least %d bytes", i, got, size)
				}
			}
			if tt.last == "" {
				expect.EventuallyEqual(t, "end of the hostile client's socket", func() float64 { return expect.Metric(t, metrics, "tipcache_rpc_sockets") }, 1)
			} else {
				expect.Contains(t, receive(t, hostile), tt.last, "last message to the hostile client")
			}
		})
	}
}

// beginDrain drains the sockets, and returns when new ones are refused. wait waits for the end.
func beginDrain(t *testing.T, d *socket.Handler, url string) (wait func()) {
	t.Helper()
	var drain sync.WaitGroup
	drain.Go(func() { d.Drain(t.Context()) })
	expect.Eventually(t, "refusal of new connections", func() bool {
		more, _, err := websocket.Dial(t.Context(), url, nil)
		if err == nil {
			_ = more.CloseNow()
		}
		return err != nil
	})
	return drain.Wait
}

func TestStoppingServerAnswersPendingRequestsAndClosesConnections(t *testing.T) {
	called, proceed := make(chan struct{}), make(chan struct{})
	d, url := serve(t, socket.Options{Methods: methods(func(*http.Request, string, json.RawMessage) []byte {
		close(called)
		<-proceed
		return []byte(`"result":{}`)
	})})
	conn := dial(t, url)
	send(t, conn, `{"id":1,"method":"slow","params":{}}`)
	<-called
	wait := beginDrain(t, d, url)
	close(proceed)
	expect.Equal(t, receive(t, conn), `{"jsonrpc":"2.0","id":1,"result":{}}`, "answer")
	if _, _, err := conn.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusServiceRestart {
		t.Errorf("connection ended with %v, want status %d", err, websocket.StatusServiceRestart)
	}
	wait()
}

func TestDrainAnswersCallsSentBeforeIt(t *testing.T) {
	called, proceed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	d, url := serve(t, socket.Options{Late: 20 * time.Second, Methods: methods(func(*http.Request, string, json.RawMessage) []byte {
		once.Do(func() { close(called) })
		<-proceed
		return []byte(`"result":{}`)
	})})
	conn := dial(t, url)
	const calls = 300 // more than the queue has room for
	for range calls {
		send(t, conn, `{"id":1,"method":"slow","params":{}}`)
	}
	<-called
	wait := beginDrain(t, d, url)
	close(proceed)
	answered := 0
	var err error
	for ; err == nil; answered++ {
		_, _, err = conn.Read(t.Context())
	}
	expect.Equal(t, answered-1, calls, "answers before %v", err)
	wait()
}

func TestConnectionDuringDrainIsAnExpectedFailure(t *testing.T) {
	d, _ := serve(t, socket.Options{})
	d.Drain(t.Context())
	r := httptest.NewRequest(http.MethodGet, "/websocket", nil)
	r.Header = http.Header{"Connection": {"upgrade"}, "Upgrade": {"websocket"}}
	f := failure.Of(d.Serve(httptest.NewRecorder(), r))
	if f.Status != http.StatusServiceUnavailable || f.Error() != "the server stops" || !f.Expected {
		t.Errorf("failure = %d %q, expected %t; want 503 with its reason, and no error in the log", f.Status, f, f.Expected)
	}
}

func TestDrainThatHasNoTimeCutsAllConnections(t *testing.T) {
	d, url := serve(t, socket.Options{})
	for range 20 {
		dial(t, url)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	drained := make(chan struct{})
	go func() { defer close(drained); d.Drain(ctx) }()
	select {
	case <-drained:
	case <-time.After(20 * time.Second):
		t.Error("Drain still waits for connections after its context has ended")
	}
}

func TestDrainDropsCallsThatArriveLater(t *testing.T) {
	d, url := serve(t, socket.Options{Methods: methods(func(*http.Request, string, json.RawMessage) []byte {
		time.Sleep(time.Millisecond) // the client is faster
		return []byte(`"result":{}`)
	})})
	conn := dial(t, url)
	var sender sync.WaitGroup
	sender.Go(func() {
		for conn.Write(t.Context(), websocket.MessageText, []byte(`{"id":1,"method":"slow","params":{}}`)) == nil {
			continue
		}
	})
	defer sender.Wait()
	receive(t, conn)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var drain sync.WaitGroup
	drain.Go(func() { d.Drain(ctx) })
	defer drain.Wait()
	var err error
	for err == nil {
		_, _, err = conn.Read(t.Context())
	}
	if websocket.CloseStatus(err) != websocket.StatusServiceRestart {
		t.Errorf("connection ended with %v, want status %d", err, websocket.StatusServiceRestart)
	}
}
