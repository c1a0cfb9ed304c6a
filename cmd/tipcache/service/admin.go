package service

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/tipcache/tipcache/cmd/tipcache/parts"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/admin"
	"github.com/tipcache/tipcache/proxy/audit"
	"github.com/tipcache/tipcache/proxy/listener"
)

// newAdmin makes what the admin listener serves.
func (s *Service) newAdmin() *admin.Handler {
	h := admin.New(admin.Options{
		Gatherer: s.registry, Ready: s.ready, Version: parts.Version(), Profiles: true,
		Calls: map[string]http.HandlerFunc{"GET /admin/explain": s.explain, "POST /admin/purge": s.purge},
	})
	h.SetToken(s.cfg.AdminToken)
	return h
}

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

func (s *Service) interfaces() interfaces {
	all := interfaces{REST: s.Addr(), RPC: s.RPCAddr(), GRPC: s.GRPCAddr(), GRPCWeb: "none"}
	if s.proxy.ServesWeb() {
		all.GRPCWeb = s.Addr()
	}
	return all
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
	Name       string `json:"name"`
	Chain      string `json:"chain"`
	Height     int64  `json:"height"`
	Lowest     int64  `json:"lowest"` // blocks below it cannot be read; 0: unknown
	Aside      bool   `json:"aside"`  // what its CometBFT claims is not believed
	Late       bool   `json:"late"`   // there are blocks that its CometBFT has not told of
	BlockAge   string `json:"block_age"`
	CatchingUp bool   `json:"catching_up"`
	Connected  bool   `json:"connected"` // block headers stream in
	Breaker    string `json:"breaker"`
	RPC        string `json:"rpc"`                // of CometBFT: ok, off, or what keeps it from being asked
	TxIndex    string `json:"tx_index,omitempty"` // on or off: whether its CometBFT finds transactions
	GRPC       string `json:"grpc"`               // as rpc
	LastError  string `json:"last_error,omitempty"`
}

func (s *Service) nodes() []nodeHealth {
	var all []nodeHealth
	for _, h := range s.pool.Health() {
		all = append(all, nodeHealth{h.Name, h.ChainID, h.Height, h.Lowest, h.Aside, h.Late, h.BlockAge.Round(time.Millisecond).String(), h.CatchingUp, h.Connected, h.Breaker, h.RPC, h.TxIndex, h.GRPC, h.LastError})
	}
	return all
}

// ready tells how the parts are; those excluded do not count.
func (s *Service) ready(ctx context.Context, exclude []string) (bool, any) {
	state := Readiness{Problems: s.lacks(ctx), Redis: stateOf(s.cache.SharedState()), Index: s.indexed(), Nodes: s.nodes(), Interfaces: s.interfaces(), Audit: s.auditor.Findings()}
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

// explainTimeout is for an explanation: memory and one exchange with Redis.
const explainTimeout = 5 * time.Second

// explain serves GET /admin/explain?url=/staking/params, and &height=, &body= and &interface=.
func (s *Service) explain(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), explainTimeout)
	defer cancel()
	asked := r.URL.Query()
	e, err := s.proxy.Explain(ctx, proxy.Inquiry{URL: asked.Get("url"), Height: asked.Get("height"), Body: asked.Get("body"), Interface: asked.Get("interface")})
	if err != nil {
		admin.WriteJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	if e.Policy != nil && e.Class != "collections" {
		for _, h := range s.pool.Health() {
			e.Nodes = append(e.Nodes, proxy.ExplainedNode{Name: h.Name, Lowest: h.Lowest, Height: h.Height, Unfit: h.Unfit})
		}
	}
	admin.WriteJSON(w, http.StatusOK, e)
}
