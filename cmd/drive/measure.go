package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
)

// measurement collects what the clients see.
type measurement struct {
	bed  *testbed
	plan plan
	keys []string
	last atomic.Int64 // unix nanoseconds of the newest block

	mu        sync.Mutex
	start     time.Time
	notes     []string
	staleness map[int64]int // answers by blocks behind the tip at the time of asking
	outcomes  map[string]int
	latency   []time.Duration // of all requests
	atBlock   []time.Duration // of those sent within atBlockWindow after a block
	failures  map[string]int
	backward  int // answers of a key at a lower height than before on the same connection
	judged    int // sampled answers held against the node's own at that height
	mixed     []string
	blocks    [2]int64
}

// atBlockWindow is how long after a new block a request counts as sent at the
// block's change.
const atBlockWindow = 250 * time.Millisecond

func newMeasurement(ctx context.Context, bed *testbed, p plan) (*measurement, error) {
	keys, err := requests(ctx, bed.judge.RESTURL(), p.keys)
	if err != nil {
		return nil, err
	}
	m := &measurement{
		bed: bed, plan: p, keys: keys, start: time.Now(),
		staleness: map[int64]int{}, outcomes: map[string]int{}, failures: map[string]int{},
	}
	m.blocks[0] = bed.devnet.Height()
	return m, nil
}

// requests are n distinct requests whose answers a block may change.
func requests(ctx context.Context, node string, n int) ([]string, error) {
	list, err := get(ctx, node+"/staking/validators?pagination.limit="+strconv.Itoa(n))
	if err != nil {
		return nil, err
	}
	paths := []string{"/staking/validators", "/staking/pool", "/staking/validators?pagination.limit=5&status=BOND_STATUS_BONDED"}
	for _, v := range gjson.Get(list, "msg.validators.#.operator_address").Array() {
		paths = append(paths, "/staking/validators/"+v.String(), "/staking/validators/"+v.String()+"/delegations?pagination.limit=20")
	}
	if n > len(paths) {
		return nil, fmt.Errorf("at most %d keys", len(paths))
	}
	return paths[:n], nil
}

func (m *measurement) note(format string, args ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.notes = append(m.notes, fmt.Sprintf("%5.1fs  ", time.Since(m.start).Seconds())+fmt.Sprintf(format, args...))
}

// drive runs the clients until ctx ends.
func (m *measurement) drive(ctx context.Context) {
	var all sync.WaitGroup
	all.Go(func() { m.watchBlocks(ctx) })
	for _, r := range m.bed.replicas {
		all.Go(func() { r.watch(ctx) })
	}
	for i := range m.plan.clients {
		all.Go(func() { m.client(ctx, i) })
	}
	all.Wait()
	m.blocks[1] = m.bed.devnet.Height()
}

func (m *measurement) watchBlocks(ctx context.Context) {
	for seen := m.bed.devnet.Height(); ctx.Err() == nil; time.Sleep(time.Millisecond) {
		if h := m.bed.devnet.Height(); h > seen {
			seen = h
			m.last.Store(time.Now().UnixNano())
		}
	}
}

// client polls random keys on one connection to one replica, as long as that
// one takes requests.
func (m *measurement) client(ctx context.Context, i int) {
	replica := m.bed.balance(i)
	transport := &http.Transport{MaxIdleConnsPerHost: 1}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	seen := map[string]int64{}
	for sleep(ctx, time.Duration(float64(m.plan.poll)*(0.5+rand.Float64()))) {
		if next := m.bed.balance(i); next != replica {
			replica = next
			clear(seen)
		}
		m.ask(context.WithoutCancel(ctx), c, replica, m.keys[rand.IntN(len(m.keys))], seen)
	}
}

// ask sends one request and notes what came of it. seen are the heights of the
// answers before, by key.
func (m *measurement) ask(ctx context.Context, c *http.Client, r *replica, key string, seen map[string]int64) {
	tip, sent := m.bed.devnet.Height(), time.Now()
	atBlock := sent.Sub(time.Unix(0, m.last.Load())) < atBlockWindow
	resp, err := send(ctx, c, r.url+key, 0)
	if err != nil {
		if !r.killed.Load() {
			m.fail("no answer")
		}
		return
	}
	body, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	took := time.Since(sent)
	height, _ := strconv.ParseInt(resp.Header.Get("X-Block-Height"), 10, 64)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil || resp.StatusCode != http.StatusOK {
		m.failures[resp.Status]++
		return
	}
	m.latency = append(m.latency, took)
	if atBlock {
		m.atBlock = append(m.atBlock, took)
	}
	m.outcomes[outcome(resp.Header.Get("Cache-Status"))]++
	if height == 0 {
		m.outcomes["without a height"]++
		return
	}
	m.staleness[max(0, tip-height)]++
	if height < seen[key] {
		m.backward++
	}
	seen[key] = max(height, seen[key])
	if rand.IntN(100) == 0 {
		m.judged++
		go m.judge(ctx, key, height, body)
	}
}

func (m *measurement) fail(why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failures[why]++
}

// outcome is Cache-Status without its numbers.
func outcome(status string) string {
	var words []string
	for _, part := range strings.Split(status, ";") {
		if name, _, _ := strings.Cut(strings.TrimSpace(part), "="); name != "ttl" && name != "tipcache" {
			words = append(words, strings.TrimSpace(part))
		}
	}
	return strings.Join(words, "; ")
}

// judge holds an answer against the node's own at the same height.
func (m *measurement) judge(ctx context.Context, key string, height int64, body []byte) {
	resp, err := send(ctx, http.DefaultClient, m.bed.judge.RESTURL()+key, height)
	if err != nil {
		m.fail("the judge node did not answer")
		return
	}
	defer resp.Body.Close()
	want, err := io.ReadAll(resp.Body)
	if err == nil && !bytes.Equal(want, body) {
		m.mu.Lock()
		m.mixed = append(m.mixed, fmt.Sprintf("%s at %d", key, height))
		m.mu.Unlock()
	}
}

// send asks for url, at a height unless it is 0.
func send(ctx context.Context, c *http.Client, url string, height int64) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if height > 0 {
		req.Header.Set("X-Block-Height", strconv.FormatInt(height, 10))
	}
	return c.Do(req)
}
