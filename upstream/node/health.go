package node

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// Health is the state of one endpoint in the JSON of /readyz.
type Health struct {
	Name       string        `json:"name"`                 // host:port
	ChainID    string        `json:"chain"`                // from the node; "" if unknown
	WrongChain bool          `json:"-"`                    // it serves another chain or fork, and is not read
	Answering  bool          `json:"-"`                    // the REST server responded within the last 15 s
	Unseen     bool          `json:"-"`                    // its CometBFT has not named the chain yet, so it is not read
	Height     int64         `json:"height"`               // newest committed block; 0 if unknown
	Lowest     int64         `json:"lowest"`               // reads below it prefer other nodes; 0 if unknown
	Distrusted bool          `json:"aside"`                // heights claimed by its CometBFT or its REST server are ignored
	Late       bool          `json:"late"`                 // there are blocks that its CometBFT has not announced
	Current    bool          `json:"-"`                    // a height that it reported was accepted recently
	CatchingUp bool          `json:"catching_up"`          // the node is behind its peers
	Connected  bool          `json:"connected"`            // block headers are streamed
	BlockAge   time.Duration `json:"-"`                    // age of the newest header; 0 if unknown
	Breaker    string        `json:"breaker"`              // closed, open or half-open
	RPC        string        `json:"rpc"`                  // CometBFT RPC: ok, off, or why it is not used
	TxIndex    string        `json:"tx_index,omitempty"`   // on or off: whether its CometBFT indexes transactions; "" if unknown
	GRPC       string        `json:"grpc"`                 // gRPC: ok, off, or why it is not used
	PageKeys   KeyForm       `json:"page_keys,omitempty"`  // form of page keys, raw or base64; "" if unknown
	LastError  string        `json:"last_error,omitempty"` // current error; "" if none
	Outage     string        `json:"-"`                    // how long the REST server has completed no request, and why; "" if it responds
	Unfit      string        `json:"-"`                    // why it should not be read; "" if it is fit
	Version    string        `json:"-"`                    // of its CometBFT; "" if unknown
	NoEvents   error         `json:"-"`                    // why its CometBFT provides no usable events; nil if it does
	CometErr   error         `json:"-"`                    // current error of its CometBFT
}

const (
	probeEvery = 5 * time.Second // if no other request reaches an endpoint
	answersFor = 3 * probeEvery  // how long an endpoint counts as answering after a response
)

// probe sends a cheap request to an endpoint if it received none for a while, or if the last one failed. So the
// endpoint is checked before the first client's request, and probes instead of clients' requests close an open breaker.
// An endpoint behind the tip is probed at its own height.
func (p *Pool) probe(ctx context.Context, e *endpoint) {
	f := &fetch{pool: p, request: Request{Path: p.protocol.probe, Height: AtTip, Background: true}}
	for round := 0; ; round++ {
		if v := e.snapshot(); !v.Foreign() && (time.Since(v.answered) >= probeEvery || e.restServer.outage.Failing()) {
			f.lower = e.newest(p.Tip())
			p.guard(func() { e.restServer.blameTimeout(f.send(ctx, e).err) }) // records the result in the endpoint's health
		}
		if v := e.snapshot(); !v.Foreign() && round%int(probeEvery/p.options.retry) == 0 { // every probeEvery
			p.guard(func() { p.followKeys(ctx, e) })
		}
		if upstream.Sleep(ctx, p.options.retry) != nil {
			return
		}
	}
}

// probeFailing probes a server after a failed request until a probe succeeds, so that failures caused by requests do
// not look like an outage.
func (p *Pool) probeFailing(ctx context.Context, s *server, probe func(context.Context)) {
	for upstream.Sleep(ctx, p.options.retry) == nil {
		if s.outage.Failing() {
			p.guard(func() { probe(ctx) })
		}
	}
}

// Outages returns the outages of all servers of all endpoints.
func (p *Pool) Outages() (all upstream.Outages) {
	for _, e := range p.endpoints() {
		for _, s := range []*server{e.restServer, e.rpcServer, e.grpcServer} {
			if s != nil {
				all = append(all, s.outage)
			}
		}
	}
	return all
}

// Starting reports whether the endpoint has not responded yet.
func (h Health) Starting() bool {
	return h.Outage == "" && !h.WrongChain && (h.Unseen || !h.Answering)
}

// Known reports whether each server of the endpoint has answered or is known to fail. Then waiting longer shows little more.
func (h Health) Known() bool {
	return h.WrongChain || h.Outage != "" || h.Unfit == "" && h.Height > 0 && h.RPC != stateUnseen && h.GRPC != stateUnseen
}

func (v *view) answering() bool { return time.Since(v.answered) <= answersFor }

// Health returns the state of each endpoint, in configuration order.
func (p *Pool) Health() []Health {
	interval := p.Tip().Interval
	all := make([]Health, 0, len(p.endpoints()))
	for _, e := range p.endpoints() {
		v := e.snapshot()
		h := Health{
			Name: e.name, ChainID: v.ChainID, WrongChain: v.Foreign(), Height: v.Height,
			CatchingUp: v.CatchingUp, Connected: v.Connected, Breaker: e.restServer.breaker.State().String(),
			Answering: v.answering(), Unseen: v.Unseen, Lowest: v.Lowest, Distrusted: v.Distrusted, Late: v.Late, Current: v.Current(interval),
			RPC: e.rpcState(v), TxIndex: v.TxIndex, GRPC: e.grpcState(p.ChainID()), PageKeys: v.keys.form,
			Version: v.Version, NoEvents: v.NoEvents, CometErr: v.CometErr,
		}
		if !v.BlockTime.IsZero() {
			h.BlockAge = time.Since(v.BlockTime)
		}
		if err := errors.Join(v.restErr, v.CometErr); err != nil {
			h.LastError = err.Error()
		}
		if err := e.restServer.outage.Cause(); err != nil {
			h.Outage = err.Error()
		}
		h.Unfit = p.unfit(h)
		all = append(all, h)
	}
	return all
}

// States of an interface of a node.
const (
	stateOK     = "ok"
	stateOff    = "off"
	stateUnseen = "has not answered yet"
)

// rpcState returns ok, off, or why the RPC is not used.
func (e *endpoint) rpcState(v view) string {
	switch {
	case e.comet == nil:
		return stateOff
	case v.Unseen:
		return stateUnseen
	case v.CometDown:
		return v.CometErr.Error()
	case e.rpcServer.isOpen():
		return "does not answer calls"
	default:
		return stateOK
	}
}

// grpcState returns ok, off, or why gRPC is not used.
func (e *endpoint) grpcState(chainID string) string {
	if e.grpc == nil {
		return stateOff
	}
	chain, problem := e.grpc.chainID(), e.grpc.problem.Load()
	switch {
	case chain != nil && *chain != chainID:
		return fmt.Sprintf("serves chain %q instead of %q", *chain, chainID)
	case chain != nil && e.grpc.lag.hides(math.MaxInt64):
		return "is behind the node's other servers"
	case chain != nil:
		return stateOK
	case problem != nil:
		return (*problem).Error()
	default:
		return stateUnseen
	}
}

// Ready returns nil if an endpoint is fit, and otherwise why each of them is not.
func (p *Pool) Ready() error {
	var reasons []error
	for _, h := range p.Health() {
		if h.Unfit == "" {
			return nil
		}
		reasons = append(reasons, errors.New(h.Name+" "+h.Unfit))
	}
	return errors.Join(reasons...)
}

// unfit returns why an endpoint is not ready, or "". An endpoint without a working CometBFT is ready: freshness is
// then measured in seconds instead of blocks.
func (p *Pool) unfit(h Health) string {
	switch {
	case h.WrongChain && h.ChainID == p.ChainID():
		return "is on another fork of its chain"
	case h.WrongChain:
		return fmt.Sprintf("serves chain %q instead of %q", h.ChainID, p.ChainID())
	case h.Outage != "":
		return h.Outage
	case h.Unseen || !h.Answering && h.LastError == "":
		return stateUnseen
	case !h.Answering:
		return fmt.Sprintf("does not answer: %s", h.LastError)
	case h.CatchingUp:
		return "is catching up with its chain"
	case h.Current && h.BlockAge > p.options.MaxBlockAge:
		return fmt.Sprintf("has no block newer than %s", h.BlockAge.Round(time.Second))
	case h.Height > 0 && p.Tip().Height-h.Height > maxWaitLag:
		return fmt.Sprintf("is %d blocks behind the newest that was read", p.Tip().Height-h.Height)
	default:
		return ""
	}
}
