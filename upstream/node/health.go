package node

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// Health is one endpoint as an operator sees it, in JSON as /readyz has it.
type Health struct {
	Name       string        `json:"name"`                 // host:port
	ChainID    string        `json:"chain"`                // as the node says; "" unknown
	WrongChain bool          `json:"-"`                    // another chain than ours, or another fork of it: never read from
	Answering  bool          `json:"-"`                    // its REST server answered within the last 15s
	Unasked    bool          `json:"-"`                    // it has a height source that has not been asked for its chain yet: not read from until then
	Height     int64         `json:"height"`               // newest committed block; 0 unknown
	Lowest     int64         `json:"lowest"`               // reads below it prefer other nodes; 0 unknown
	Aside      bool          `json:"aside"`                // what its height source claims is not believed
	Late       bool          `json:"late"`                 // there are blocks that its CometBFT has not told of
	Heard      bool          `json:"-"`                    // its height is current: it was heard from lately
	CatchingUp bool          `json:"catching_up"`          // the node says it is behind its peers
	Connected  bool          `json:"connected"`            // block headers stream in
	BlockAge   time.Duration `json:"-"`                    // of the newest header that was heard of; 0 unknown
	Breaker    string        `json:"breaker"`              // closed, open or half-open
	RPC        string        `json:"rpc"`                  // how its CometBFT RPC is: ok, off, or what keeps it from being asked
	TxIndex    string        `json:"tx_index,omitempty"`   // on or off, as its CometBFT says: whether it finds transactions; "" unknown
	GRPC       string        `json:"grpc"`                 // how its gRPC is: ok, off, or what keeps it from being asked
	PageKeys   KeyForm       `json:"page_keys,omitempty"`  // the form in which it reads page keys, raw or base64; "" unknown
	LastError  string        `json:"last_error,omitempty"` // what goes wrong now, "" for nothing
	Outage     string        `json:"-"`                    // for how long its REST server has completed no request, and why; "" while it does
	Unfit      string        `json:"-"`                    // why it is not fit to be read from, "" where it is
}

const (
	probeEvery = 5 * time.Second // while no request asks an endpoint anyway
	answersFor = 3 * probeEvery  // an endpoint counts as reachable after an answer
)

// probe asks an endpoint for something cheap whenever no request went there for a while, or the
// last one failed: the endpoint is ready before the first request, and an open breaker closes at
// the probe's cost.
func (p *Pool) probe(ctx context.Context, e *endpoint) {
	f := &fetch{pool: p, request: Request{Path: p.protocol.probe, Height: AtTip, Background: true}}
	for round := 0; ; round++ {
		if v := e.look(); !v.Foreign() && (time.Since(v.answered) >= probeEvery || e.rest.outage.Failing()) {
			p.guard(func() { _ = f.ask(ctx, e).err }) // noted in the endpoint's health
		}
		if v := e.look(); !v.Foreign() && round%int(probeEvery/p.options.retry) == 0 {
			p.guard(func() { p.followKeys(ctx, e) })
		}
		if upstream.Sleep(ctx, p.options.retry) != nil {
			return
		}
	}
}

// probeFailing probes a server whose last request failed, until one completes. Requests that the
// server cannot answer, of whatever client, then never look like an outage.
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
		for _, s := range []*server{e.rest, e.calls, e.invokes} {
			if s != nil {
				all = append(all, s.outage)
			}
		}
	}
	return all
}

// Starting reports whether nothing is known of the endpoint yet.
func (h Health) Starting() bool {
	return h.Outage == "" && !h.WrongChain && (h.Unasked || !h.Answering)
}

// Undetermined reports whether no node has said yet which dialect it speaks.
func (p *Pool) Undetermined() bool { return !p.hasDialect() }

// answering says whether the REST server answered lately.
func (v *view) answering() bool { return time.Since(v.answered) <= answersFor }

// Health is what is known of each endpoint, in the order they were configured.
func (p *Pool) Health() []Health {
	interval := p.Tip().Interval
	all := make([]Health, 0, len(p.endpoints()))
	for _, e := range p.endpoints() {
		v := e.look()
		h := Health{
			Name: e.name, ChainID: v.ChainID, WrongChain: v.Foreign(), Height: v.Height,
			CatchingUp: v.CatchingUp, Connected: v.Connected, Breaker: e.rest.breaker.State().String(),
			Answering: v.answering(), Unasked: v.Unseen, Lowest: v.Lowest, Aside: v.Distrusted, Late: v.Late, Heard: v.Current(interval),
			RPC: e.rpcState(v), TxIndex: v.TxIndex, GRPC: e.grpcState(p.ChainID()), PageKeys: e.keys.last(),
		}
		if !v.BlockTime.IsZero() {
			h.BlockAge = time.Since(v.BlockTime)
		}
		if err := errors.Join(v.restErr, v.CometErr); err != nil {
			h.LastError = err.Error()
		}
		if err := e.rest.outage.Cause(); err != nil {
			h.Outage = err.Error()
		}
		h.Unfit = p.unfit(h)
		all = append(all, h)
	}
	return all
}

// How an interface of a node is, where no more is to be said.
const (
	fine   = "ok"
	absent = "off"
)

// rpcState is ok, off for none, or what keeps the RPC from being asked.
func (e *endpoint) rpcState(v view) string {
	switch {
	case e.comet == nil:
		return absent
	case v.Unseen:
		return "has not answered yet"
	case v.CometDown:
		return v.CometErr.Error()
	case e.calls.open():
		return "does not answer calls"
	default:
		return fine
	}
}

// grpcState is the same of gRPC.
func (e *endpoint) grpcState(chainID string) string {
	if e.grpc == nil {
		return absent
	}
	chain, problem := e.grpc.chain.Load(), e.grpc.problem.Load()
	switch {
	case chain != nil && *chain != chainID:
		return fmt.Sprintf("serves chain %q instead of %q", *chain, chainID)
	case chain != nil:
		return fine
	case problem != nil:
		return (*problem).Error()
	default:
		return "has not answered yet"
	}
}

// Ready is nil while an endpoint is fit to be read from, else it says what each of them lacks.
func (p *Pool) Ready() error {
	if !p.hasDialect() {
		return errUndetermined
	}
	var lacks []error
	for _, h := range p.Health() {
		if h.Unfit == "" {
			return nil
		}
		lacks = append(lacks, errors.New(h.Name+" "+h.Unfit))
	}
	return errors.Join(lacks...)
}

// unfit is what keeps an endpoint from being ready, "" for nothing. That its height
// source is away is no cause: answers then age in seconds instead of blocks.
func (p *Pool) unfit(h Health) string {
	switch {
	case h.WrongChain && h.ChainID == p.ChainID():
		return "is on another fork of its chain"
	case h.WrongChain:
		return fmt.Sprintf("serves chain %q instead of %q", h.ChainID, p.ChainID())
	case h.Outage != "":
		return h.Outage
	case h.Unasked || !h.Answering && h.LastError == "":
		return "has not answered yet"
	case !h.Answering:
		return fmt.Sprintf("does not answer: %s", h.LastError)
	case h.CatchingUp:
		return "is catching up with its chain"
	case h.Heard && h.BlockAge > p.options.MaxBlockAge:
		return fmt.Sprintf("has no block newer than %s", h.BlockAge.Round(time.Second))
	case h.Height > 0 && p.Tip().Height-h.Height > nearby:
		return fmt.Sprintf("is %d blocks behind the newest that was read", p.Tip().Height-h.Height)
	default:
		return ""
	}
}
