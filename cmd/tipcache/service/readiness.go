package service

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node"
)

// Health is the body of /readyz. A degraded replica is ready, because the other replicas have lost the
// same upstream.
type Health struct {
	Ready    bool              `json:"ready"`
	Problems map[string]string `json:"problems"` // why it is not ready, by part: node, store, cache, draining
	Degraded map[string]string `json:"degraded"` // failures, by upstream, such as "node 127.0.0.1:1317"
	Tip      int64             `json:"tip"`      // 0 means unknown
	Epoch    int64             `json:"epoch"`    // Unix seconds at which the chain was last found reset or rolled back; 0 means never
	Redis    string            `json:"redis"`    // ok, failing, trying or off
	Metadata string            `json:"metadata"` // state of the provider: as for redis, or rate_limited or unauthorized
	Failure  string            `json:"metadata_error,omitempty"`
	Store    string            `json:"store"`           // ok, failing or off
	Index    *IndexHealth      `json:"index,omitempty"` // nil if the store is not indexed
	Nodes    []nodeHealth      `json:"nodes"`

	Interfaces Addresses `json:"interfaces"`

	Certificate *certificateHealth `json:"certificate,omitempty"` // nil without TLS
}

// Addresses are the addresses of the listeners, or "none".
type Addresses struct {
	REST    string `json:"rest"`
	RPC     string `json:"rpc"` // with its WebSocket
	GRPC    string `json:"grpc"`
	GRPCWeb string `json:"grpc_web"`
	Admin   string `json:"-"`
}

// certificateHealth is the validity of the certificate. An expired one does not make the service
// unready: other replicas have the same one.
type certificateHealth struct {
	State   conn.Validity `json:"state"`
	Expires time.Time     `json:"expires"`
}

// states are the words for the states of a breaker.
var states = map[string]string{
	gobreaker.StateClosed.String(): "ok", gobreaker.StateOpen.String(): "failing", gobreaker.StateHalfOpen.String(): "trying",
}

// stateOf returns the word for the state of a breaker, or the state itself, such as off.
func stateOf(breaker string) string { return cmp.Or(states[breaker], breaker) }

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

// ready reports whether requests should be sent here, and returns the state of all parts. The required
// parts must work.
func (s *Service) ready(ctx context.Context, required []string) (bool, any) {
	if !s.started.Load() {
		return false, s.startingState()
	}
	state := s.state(ctx, required)
	return state.Ready, state
}

// state returns the state of all parts. It is ready if the required parts work.
func (s *Service) state(ctx context.Context, required []string) Health {
	j := s.judge(ctx)
	for _, part := range required {
		switch err, configured := j.parts[part]; {
		case !configured:
			j.problems["require"] = fmt.Sprintf("%.40q is not a configured part; expected node or store", part)
		case err != nil:
			j.problems[part] = err.Error()
		}
	}
	state := Health{
		Problems: j.problems, Degraded: j.degraded, Redis: stateOf(s.cache.SharedState()), Index: s.indexed(), Nodes: s.nodes(),
		Interfaces: s.Addresses,
	}
	if s.redisUse != nil && state.Redis == "off" { // Redis is configured, but not used yet
		if state.Redis = "trying"; s.redisUse.Failing() {
			state.Redis = "failing"
		}
	}
	provider, failure := s.metadata.State()
	if state.Metadata = stateOf(provider); failure != nil {
		state.Failure = failure.Error()
	}
	switch {
	case s.store == nil:
		state.Store = "off"
	case j.parts["store"] != nil:
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
	state.Ready = len(state.Problems) == 0
	if state.Index != nil && state.Index.Degraded {
		state.Degraded["index"] = state.Index.Error
	}
	return state
}

// A judgement is the state of the parts.
type judgement struct {
	parts    map[string]error  // by part: node and store, if configured; nil if the part works
	problems map[string]string // why requests should not be sent here, by part
	degraded map[string]string // failures, by upstream
}

// judge checks the parts, and logs problems that begin or end. It logs nothing if the caller has canceled
// ctx.
func (s *Service) judge(ctx context.Context) judgement {
	check, nodes := s.readiness.checks.Add(1), s.pool.Health()
	j := judgement{parts: map[string]error{}, problems: map[string]string{}}
	if len(s.cfg.Chain.Nodes) > 0 {
		j.parts["node"] = s.pool.Ready()
	}
	if s.store != nil {
		j.parts["store"] = s.store.Ping(ctx)
	}
	if s.cfg.ServesNothing() {
		j.problems["node"] = "no chain node is configured, and collections are not served"
	}
	if s.checkRedisUse(ctx) {
		j.problems["redis"] = "the replicas have not agreed on the chain's epoch yet"
	}
	if s.eventsUse != nil {
		s.eventsUse.Record(s.rpc.feed.Unsupported())
	}
	if s.certificate == nil {
	} else if err := s.certificate.Rejected(); err != nil {
		s.certificateUse.Begin(err)
	} else {
		s.certificateUse.End()
	}
	outages := s.allOutages().Causes()
	j.degraded = maps.Clone(outages)
	for _, h := range nodes {
		if h.Unfit != "" && !h.Starting() {
			j.degraded["node "+h.Name] = h.Unfit
		}
	}
	if upstream.Panicking() {
		j.degraded["inputs"] = "handling of three inputs or more panicked within a minute: see the log"
	}
	if s.pool.MixedKeys() {
		j.degraded["page keys"] = "some nodes read page keys raw and others in base64, and chain.shape: node sends them as clients write them"
	}
	for _, part := range s.missing(j.parts, nodes) {
		j.problems[part] = j.parts[part].Error()
	}
	if s.stopping.Load() {
		j.problems["draining"] = "finishing the last requests"
	}
	if !errors.Is(ctx.Err(), context.Canceled) {
		s.readiness.record(check, j, s.toLog(j, outages))
	}
	return j
}

// missing returns the parts without which the replica is not ready. A part that has worked before is
// not missing, nor is one that does not start while another part or cached entries answer requests.
// Nodes that all serve another chain are always missing, because the configuration is wrong.
func (s *Service) missing(parts map[string]error, nodes []node.Health) (missing []string) {
	starting := map[string]bool{
		"node":  slices.ContainsFunc(nodes, node.Health.Starting),
		"store": s.store != nil && s.store.Outage().Cause() == nil,
	}
	serves := s.cache.Entries() > 0
	for part, err := range parts {
		serves = s.readiness.works(part, err == nil) || serves
	}
	for part, err := range parts {
		misconfigured := part == "node" && !slices.ContainsFunc(nodes, func(h node.Health) bool { return !h.WrongChain })
		never := !s.readiness.works(part, false) && (starting[part] || !serves)
		if err != nil && (never || misconfigured) {
			missing = append(missing, part)
		}
	}
	return missing
}

// toLog returns the problems that are not logged elsewhere: outages log themselves, and a node's own
// problem is more precise than the problem of all nodes. The agreement of the replicas takes a moment of each start.
func (s *Service) toLog(j judgement, outages map[string]string) map[string]string {
	all := maps.Clone(j.problems)
	delete(all, "store")
	delete(all, "node")
	delete(all, "redis")
	for upstream, problem := range j.degraded {
		if outages[upstream] == "" {
			all[upstream] = problem
		}
	}
	return all
}

// Interval and timeout of the checks that run without requests for /readyz.
const (
	readinessEvery   = 2 * time.Second
	readinessTimeout = time.Second
)

// readinessLog records whether the replica is ready, and logs each problem of readiness once when it begins and once when it ends.
type readinessLog struct {
	log    *slog.Logger
	checks atomic.Int64 // number of checks that have begun
	state  *web.Readiness

	mu     sync.Mutex
	last   int64                // number of the newest recorded check
	logged map[string]time.Time // start of the logged problems, by part or node
	worked map[string]bool      // the parts that have ever worked
}

// works records whether a part works now, and reports whether it ever has.
func (l *readinessLog) works(part string, now bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.worked[part] = l.worked[part] || now
	return l.worked[part]
}

// record sets the readiness, and logs the problems that a check found, unless a later check was recorded before.
func (l *readinessLog) record(check int64, j judgement, problems map[string]string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if check < l.last {
		return
	}
	l.last = check
	l.state.Set(len(j.problems) == 0, j.parts)
	for _, part := range slices.Sorted(maps.Keys(problems)) {
		if _, known := l.logged[part]; !known {
			l.logged[part] = time.Now()
			l.log.Warn("readiness problem", "part", part, "error", problems[part])
		}
	}
	for _, part := range slices.Sorted(maps.Keys(l.logged)) {
		if _, still := problems[part]; !still {
			l.log.Info("readiness problem gone", "part", part, "after", time.Since(l.logged[part]).Round(time.Millisecond).String())
			delete(l.logged, part)
		}
	}
}

// check checks the parts for the log and for health checks on the client listeners.
func (s *Service) check(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, readinessTimeout)
	defer cancel()
	s.judge(ctx)
}

// watchReadiness checks the parts until ctx ends.
func (s *Service) watchReadiness(ctx context.Context) {
	for upstream.Sleep(ctx, readinessEvery) == nil {
		s.check(ctx)
		if s.certificate != nil {
			s.certificate.Validity() // logs an expiry
		}
	}
}
