package events_test

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream/events"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/heights/comet"
	"github.com/tipcache/tipcache/upstream/heights/tip"
)

// A chain is a fake chain with its heights and nodes.
type chain struct {
	mu    sync.Mutex
	tip   tip.Tip
	moved chan struct{}
	txs   map[int64]int  // number of transactions by height
	forks map[int64]bool // heights whose block hash differs from the default
	nodes []*node

	updates map[int64]string  // validator_updates by height
	results map[string]string // overrides the results of transactions, by raw
	size    int               // length of a member of each block, in bytes
	old     bool              // nodes send blocks in the form of CometBFT before 0.38
}

func newChain(nodes int) *chain {
	c := &chain{tip: tip.Tip{Height: 100}, moved: make(chan struct{}), txs: map[int64]int{}, forks: map[int64]bool{}, updates: map[int64]string{}, results: map[string]string{}}
	for i := range nodes {
		c.nodes = append(c.nodes, &node{chain: c, name: fmt.Sprint("n", i), fit: true, indexed: 1 << 60})
	}
	return c
}

func (c *chain) ChainID() string { return "chain-1" }

func (c *chain) Tip() tip.Tip {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tip
}

// HashOf knows the hash of a block from the header of the next one.
func (c *chain) HashOf(height int64) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if height >= c.tip.Height {
		return ""
	}
	return c.hash(height)
}

func (c *chain) Moved() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.moved
}

func (c *chain) move(height, epoch int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tip.Height, c.tip.Epoch, c.tip.Since = height, epoch, time.Now()
	close(c.moved)
	c.moved = make(chan struct{})
}

// fallTo sets the block to which the chain fell before the next epoch.
func (c *chain) fallTo(height int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.tip.FellTo = height
}

// fork changes the hash of a block.
func (c *chain) fork(height int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.forks[height] = true
}

func (c *chain) hash(height int64) string {
	return fmt.Sprintf("%X%t", height, c.forks[height])
}

// raw returns a transaction in base64.
func raw(height int64, i int) string {
	return base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "%d/%d", height, i))
}

// block returns the results of the methods block and block_results.
func (c *chain) block(height int64) (block, results string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var txs, outcomes []string
	for i := range c.txs[height] {
		tx := raw(height, i)
		txs = append(txs, fmt.Sprintf("%q", tx))
		if result := c.results[raw(height, i)]; result != "" {
			outcomes = append(outcomes, result)
			continue
		}
		outcomes = append(outcomes, `{"code":0,"events":[{"type":"t","attributes":[{"key":"i","value":"`+fmt.Sprint(i)+`"}]}]}`)
	}
	block = fmt.Sprintf(`{"block_id":{"hash":%q},"block":{"header":{"chain_id":"chain-1","height":"%d","last_block_id":{"hash":%q},"x":%q},"data":{"txs":[%s]},"evidence":{"evidence":[]}}}`,
		c.hash(height), height, c.hash(height-1), strings.Repeat("x", c.size), strings.Join(txs, ","))
	if c.old {
		return block, fmt.Sprintf(`{"height":"%d","txs_results":[%s],"begin_block_events":[],"end_block_events":[]}`, height, strings.Join(outcomes, ","))
	}
	return block, fmt.Sprintf(`{"height":"%d","txs_results":[%s],"finalize_block_events":[],"validator_updates":%s}`, height, strings.Join(outcomes, ","), cmp.Or(c.updates[height], "null"))
}

// A node is a fake node of a chain.
type node struct {
	chain *chain
	name  string

	mu      sync.Mutex
	fit     bool
	down    bool      // connections are refused
	pruned  int64     // newest pruned block
	indexed int64     // newest indexed block
	refusal string    // error of every search; "" searches the index
	failing string    // error of the method block_results; "" for none
	streams []*stream // open streams
	queries []string  // of all streams, closed ones included
	calls   []string

	cut      error         // of streams that stop closes; nil means that the connection is reset
	blocked  chan struct{} // if not nil, calls other than searches return when it is closed
	noEvents error         // result of NoEvents
	panics   bool          // every call panics
}

func (n *node) with(change func(*node)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(n)
}

func (n *node) options() events.Node {
	return events.Node{
		Name: n.name,
		Fit: func() (fit bool) {
			n.with(func(n *node) { fit = n.fit })
			return fit
		},
		NoEvents: func() (err error) {
			n.with(func(n *node) { err = n.noEvents })
			return err
		},
		Subscribe: n.subscribe,
		Call:      n.call,
	}
}

type stream struct {
	node     *node
	messages chan string
	closed   chan struct{}
	once     sync.Once
}

func (n *node) subscribe(_ context.Context, query string) (events.Stream, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		return nil, errors.New("connection refused")
	}
	s := &stream{node: n, messages: make(chan string, 1000), closed: make(chan struct{})}
	n.streams, n.queries = append(n.streams, s), append(n.queries, query)
	return s, nil
}

func (s *stream) Next(ctx context.Context) (json.RawMessage, error) {
	select {
	case m := <-s.messages:
		return json.RawMessage(m), nil
	case <-s.closed:
		s.node.mu.Lock()
		defer s.node.mu.Unlock()
		return nil, cmp.Or(s.node.cut, errors.New("connection reset"))
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s *stream) Close() {
	s.once.Do(func() {
		close(s.closed)
		s.node.with(func(n *node) {
			n.streams = slices.DeleteFunc(n.streams, func(other *stream) bool { return other == s })
		})
	})
}

func (n *node) open() (open int) {
	n.with(func(n *node) { open = len(n.streams) })
	return open
}

// stop closes all streams and refuses new ones until start.
func (n *node) stop() {
	var cut []*stream
	n.with(func(n *node) { n.down, n.fit, cut = true, false, slices.Clone(n.streams) })
	for _, s := range cut {
		s.Close()
	}
}

func (n *node) start() { n.with(func(n *node) { n.down, n.fit = false, true }) }

func (n *node) send(message string) {
	n.with(func(n *node) {
		for _, s := range n.streams {
			s.messages <- message
		}
	})
}

// announce sends a block's NewBlock event.
func (n *node) announce(height int64) {
	block, results := n.chain.block(height)
	var b struct {
		ID    json.RawMessage `json:"block_id"`
		Block json.RawMessage `json:"block"`
	}
	var r struct {
		Txs json.RawMessage `json:"txs_results"`
	}
	if err := errors.Join(json.Unmarshal([]byte(block), &b), json.Unmarshal([]byte(results), &r)); err != nil {
		panic(err)
	}
	outcome := fmt.Sprintf(`"result_finalize_block":{"events":[],"tx_results":%s}`, r.Txs)
	if n.chain.old {
		outcome = `"result_begin_block":{},"result_end_block":{"validator_updates":null}`
	}
	n.send(fmt.Sprintf(`{"query":"q","data":{"type":"tendermint/event/NewBlock","value":{"block":%s,"block_id":%s,%s}},"events":{"tm.event":["NewBlock"]}}`, b.Block, b.ID, outcome))
}

// announceUnrelated sends the NewBlock event of a block 102 with another parent than the chain's.
func (n *node) announceUnrelated(chainID string) {
	n.send(`{"data":{"value":{"block":{"header":{"chain_id":"` + chainID + `","height":"102","last_block_id":{"hash":"Y"}},"data":{"txs":[]}},"block_id":{"hash":"X"},"result_finalize_block":{}}},"events":{"tm.event":["NewBlock"]}}`)
}

func (n *node) call(_ context.Context, method string, params any, _ int64) (json.RawMessage, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.panics {
		panic("a block that cannot be read")
	}
	text, _ := json.Marshal(params)
	n.calls = append(n.calls, method+string(text))
	if n.down {
		return nil, errors.New("connection refused")
	}
	arguments := params.(map[string]string)
	if method == "tx" {
		return n.tx(arguments["hash"])
	}
	height, _ := strconv.ParseInt(arguments["height"], 10, 64)
	if height <= n.pruned {
		return nil, &comet.Refusal{Message: "Internal error", Data: fmt.Sprintf("height %d is not available, lowest height is %d", height, n.pruned+1)}
	}
	block, results := n.chain.block(height)
	if blocked := n.blocked; blocked != nil {
		n.mu.Unlock()
		<-blocked
		n.mu.Lock()
	}
	if method == "block" {
		return json.RawMessage(block), nil
	}
	if n.failing != "" {
		return nil, &comet.Refusal{Message: "Internal error", Data: n.failing}
	}
	return json.RawMessage(results), nil
}

func (n *node) tx(hash string) (json.RawMessage, error) {
	if n.refusal != "" {
		return nil, &comet.Refusal{Message: "Internal error", Data: n.refusal}
	}
	if n.chain.Tip().Height > n.indexed {
		return nil, &comet.Refusal{Message: "Internal error", Data: "tx (" + hash + ") not found"}
	}
	return json.RawMessage("{}"), nil
}

// A world is a running feed of a fake chain, in a synctest bubble.
type world struct {
	*chain
	t    *testing.T
	feed *events.Feed
}

// inBubble runs a test in a synctest bubble, with a feed of a chain with a number of nodes.
func inBubble(t *testing.T, nodes int, o events.Options, test func(t *testing.T, w *world)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		c := newChain(nodes)
		o.Heights = c
		o.Nodes = func() (all []events.Node) {
			for _, n := range c.nodes {
				all = append(all, n.options())
			}
			return all
		}
		w := &world{chain: c, t: t, feed: events.New(o)}
		var run sync.WaitGroup
		run.Go(func() { _ = w.feed.Run(t.Context()) })
		t.Cleanup(run.Wait)
		test(t, w)
	})
}

// A listener collects a subscriber's messages as texts.
type listener struct {
	*events.Subscriber
	mu    sync.Mutex
	texts []string
	awake chan struct{}
}

// listen subscribes with queries.
func (w *world) listen(queries ...string) *listener {
	w.t.Helper()
	l := &listener{awake: make(chan struct{}, 1)}
	l.Subscriber = w.feed.Subscriber(events.Client{Limit: 5, Wake: func() { l.awake <- struct{}{} }})
	for _, q := range queries {
		expect.NoError(w.t, l.Subscribe(q, q))
	}
	ctx := w.t.Context()
	var drains sync.WaitGroup
	drains.Go(func() {
		for {
			select {
			case <-l.awake:
				l.drain(ctx)
			case <-ctx.Done():
				return
			}
		}
	})
	w.t.Cleanup(drains.Wait)
	return l
}

func (l *listener) drain(ctx context.Context) {
	for {
		m, ok := l.Next(ctx)
		if !ok {
			return
		}
		l.mu.Lock()
		l.texts = append(l.texts, text(m))
		l.mu.Unlock()
	}
}

func text(m events.Message) string {
	switch {
	case m.End != nil:
		return fmt.Sprint(m.Label, ": ", m.End)
	case m.Event.Kind == events.Tx:
		return fmt.Sprintf("%s%s%s", m.Event.Kind, m.Event.Tags["tx.height"], m.Event.Tags["t.i"])
	case m.Event.Height == 0:
		return m.Event.Kind
	}
	return fmt.Sprint(m.Event.Kind, " ", m.Event.Height)
}

// received returns the messages since the previous call, after all goroutines are idle.
func (l *listener) received() string {
	synctest.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	texts := strings.Join(l.texts, ", ")
	l.texts = nil
	return texts
}
