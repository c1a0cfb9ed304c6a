package service

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/tipcache/tipcache/proxy/audit"
	"github.com/tipcache/tipcache/proxy/listener"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/node"
)

// Readiness is the body of /readyz. The loss of Redis or of the
// metadata provider degrades the service, but does not make it unready.
type Readiness struct {
	Ready    bool              `json:"ready"`
	Problems map[string]string `json:"problems"` // by part: node, store, draining, cache
	Tip      int64             `json:"tip"`      // 0: none was seen
	Epoch    int64             `json:"epoch"`    // 0, or when the chain was last found reset or set back, in Unix seconds
	Redis    string            `json:"redis"`    // ok, failing, trying or off
	Metadata string            `json:"metadata"` // the same of the provider, rate_limited or unauthorized
	Failure  string            `json:"metadata_error,omitempty"`
	Store    string            `json:"store"`           // ok, failing or off
	Index    *IndexHealth      `json:"index,omitempty"` // of a store that follows the chain
	Nodes    []nodeHealth      `json:"nodes"`

	Interfaces interfaces `json:"interfaces"`

	Audit map[string]audit.Finding `json:"audit,omitempty"` // of the nodes, and of redis, whose answers differ from what was read again

	Certificate *certificateHealth `json:"certificate,omitempty"` // of both listeners, where they speak TLS
}

// interfaces are what is served to clients, each with the address of its listener, "none" for one
// that is not served.
type interfaces struct {
	REST    string `json:"rest"`
	RPC     string `json:"rpc"` // with its WebSocket
	GRPC    string `json:"grpc"`
	GRPCWeb string `json:"grpc_web"`
}

// certificateHealth is how long a certificate holds on. One that has expired does not
// make the service unready: another replica has the same one.
type certificateHealth struct {
	State   listener.Validity `json:"state"`
	Expires time.Time         `json:"expires"`
}

// states say in words for people how a part is whose breaker is in a state.
var states = map[string]string{
	gobreaker.StateClosed.String(): "ok", gobreaker.StateOpen.String(): "failing", gobreaker.StateHalfOpen.String(): "trying",
}

// stateOf is the word for the state of a breaker. A part that is off has none.
func stateOf(breaker string) string { return cmp.Or(states[breaker], breaker) }

// nodeHealth is what is known of one node.
type nodeHealth struct {
	node.Health
	BlockAge string `json:"block_age"`
}

func (s *Service) nodes() []nodeHealth {
	var all []nodeHealth
	for _, h := range s.pool.Health() {
		all = append(all, nodeHealth{h, h.BlockAge.Round(time.Millisecond).String()})
	}
	return all
}

// ready tells how the parts are; those excluded do not count.
func (s *Service) ready(ctx context.Context, exclude []string) (bool, any) {
	state := Readiness{
		Problems: s.lacks(ctx), Redis: stateOf(s.cache.SharedState()), Index: s.indexed(), Nodes: s.nodes(),
		Interfaces: interfaces{REST: s.Addr(), RPC: s.RPCAddr(), GRPC: s.GRPCAddr(), GRPCWeb: s.Addr()},
	}
	if s.auditor != nil {
		state.Audit = s.auditor.Findings()
	}
	said, failure := s.metadata.State()
	if state.Metadata = stateOf(said); failure != nil {
		state.Failure = failure.Error()
	}
	switch {
	case s.store == nil:
		state.Store = "off"
	case state.Problems["store"] != "":
		state.Store = "failing"
	default:
		state.Store = "ok"
	}
	if s.certificate != nil {
		v, expires := s.certificate.Validity()
		state.Certificate = &certificateHealth{v, expires}
	}
	tip := s.pool.Tip()
	state.Tip, state.Epoch = tip.Height, tip.Epoch
	for _, part := range exclude {
		delete(state.Problems, part)
	}
	state.Ready = len(state.Problems) == 0
	return state.Ready, state
}

// IndexHealth is how far the store has followed the chain, in /readyz. A store that
// is behind does not make the service unready: the collections in it can be listed.
type IndexHealth struct {
	Chain    int64  `json:"chain,omitempty"`
	Block    int64  `json:"block,omitempty"`  // the last one counted; missing before the first
	Behind   string `json:"behind,omitempty"` // the age of that block
	Running  bool   `json:"running"`          // this process has its turn
	State    string `json:"state"`            // of this process, as tipcache_indexer_state has it
	Degraded bool   `json:"degraded"`         // this process should count and does not, or has counted too little; Error says why
	Blocks   *int64 `json:"blocks_left"`      // null where another process has its turn, or this one does not get on
	Error    string `json:"error,omitempty"`
}

// indexed returns nil for a store that was never indexed and is not about to be.
func (s *Service) indexed() *IndexHealth {
	if s.watch == nil {
		return nil
	}
	m := s.watch.Mark()
	if s.indexer == nil && (m == nil || m.Cursor.Chain == 0) {
		return nil
	}
	var own indexer.Status
	if s.indexer != nil {
		own = s.indexer.Status()
	}
	return NewIndexHealth(m, own)
}

// NewIndexHealth joins what the store says, nil for nothing yet, with what this
// process does.
func NewIndexHealth(m *collections.Mark, own indexer.Status) *IndexHealth {
	h := &IndexHealth{Running: own.Running, State: own.State(), Degraded: own.Err != nil}
	if m != nil && m.Cursor.Chain != 0 {
		h.Chain, h.Block, h.Behind = m.Cursor.Chain, m.Cursor.Block, time.Since(m.Cursor.Time).Round(time.Second).String()
	}
	if own.Err != nil {
		h.Error = own.Err.Error()
	}
	if left, known := own.Left(); known {
		h.Blocks = &left
	}
	return h
}

var (
	errDraining = errors.New("finishing the last requests")
	errWarming  = errors.New("taking over what other replicas use most")
)

// lacks finds out what keeps requests from being sent here, by part, and has the log
// told of it. A caller that leaves finds nothing out.
func (s *Service) lacks(ctx context.Context) map[string]string {
	look, lacks := s.readiness.begin(), map[string]string{}
	put := func(part string, err error) {
		if err != nil {
			lacks[part] = err.Error()
		}
	}
	put("node", s.pool.Ready())
	if s.store != nil {
		put("store", s.store.Ping(ctx))
	}
	if s.cache.Warming() {
		put("cache", errWarming) // other replicas answer better for a moment
	}
	if s.stopping.Load() {
		put("draining", errDraining)
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		s.readiness.note(look, byNode(lacks, s.pool.Health()))
	}
	return lacks
}

// byNode has the problems of single nodes in place of that of all of them. A node that
// was not asked yet has none.
func byNode(lacks map[string]string, nodes []node.Health) map[string]string {
	all, unfit := maps.Clone(lacks), false
	for _, h := range nodes {
		if h.Unfit == "" {
			continue
		}
		unfit = true
		if h.Answering || h.LastError != "" {
			all["node "+h.Name] = h.Unfit
		}
	}
	if unfit {
		delete(all, "node")
	}
	return all
}

// How often the parts are looked at while no one asks for /readyz, and the time they
// have to report their state.
const (
	readinessEvery   = 2 * time.Second
	readinessTimeout = time.Second
)

// readinessLog has each problem of readiness told when it comes and when it goes: one
// line each, however many look in between.
type readinessLog struct {
	log   *slog.Logger
	looks atomic.Int64 // begun

	mu   sync.Mutex
	last int64                // the look that was noted last
	told map[string]time.Time // by part, and node: since when the problem is told
}

func newReadinessLog(log *slog.Logger) *readinessLog {
	return &readinessLog{log: log, told: map[string]time.Time{}}
}

// begin numbers a look, before anything is asked.
func (l *readinessLog) begin() int64 { return l.looks.Add(1) }

// note tells what a look has found, unless a look that began later was noted.
func (l *readinessLog) note(look int64, problems map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if look < l.last {
		return
	}
	l.last = look
	for _, part := range slices.Sorted(maps.Keys(problems)) {
		if _, known := l.told[part]; !known {
			l.told[part] = time.Now()
			l.log.Warn("readiness problem", "part", part, "error", problems[part])
		}
	}
	for _, part := range slices.Sorted(maps.Keys(l.told)) {
		if _, still := problems[part]; !still {
			l.log.Info("readiness problem gone", "part", part, "after", time.Since(l.told[part]).Round(time.Millisecond).String())
			delete(l.told, part)
		}
	}
}

// watchReadiness looks at the parts until ctx ends.
func (s *Service) watchReadiness(ctx context.Context) {
	for upstream.Sleep(ctx, readinessEvery) == nil {
		within, cancel := context.WithTimeout(ctx, readinessTimeout)
		s.lacks(within)
		cancel()
		if s.certificate != nil {
			s.certificate.Validity() // for the log
		}
	}
}
