package node

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/sony/gobreaker/v2"
	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/heights"
)

const (
	probeEvery = 5 * time.Second // while no request asks an endpoint anyway
	answersFor = 3 * probeEvery  // an endpoint counts as reachable after an answer
)

// probe asks an endpoint for something cheap whenever no request went there for a
// while: readiness is then true before the first request, and an open breaker
// closes at the probe's cost.
func (p *Pool) probe(ctx context.Context, e *endpoint) {
	f := &fetch{pool: p, request: Request{Path: p.protocol.probe, Height: AtTip, Background: true}}
	for {
		if v := e.look(); !v.Foreign() && time.Since(v.answered) >= probeEvery {
			_ = f.ask(ctx, e).err // noted in the endpoint's health
		}
		if upstream.Sleep(ctx, probeEvery) != nil {
			return
		}
	}
}

// answering says whether the REST server answered lately.
func (v *view) answering() bool { return time.Since(v.answered) <= answersFor }

// Health is what is known of each endpoint, in the order they were configured.
func (p *Pool) Health() []Health {
	interval := p.Tip().Interval
	all := make([]Health, 0, len(p.endpoints))
	for _, e := range p.endpoints {
		v := e.look()
		h := Health{
			Name: e.name, ChainID: v.ChainID, WrongChain: v.Foreign(), Height: v.Height,
			CatchingUp: v.CatchingUp, Connected: v.Connected, Breaker: e.breaker.State().String(),
			Answering: v.answering(), Unasked: v.Unseen, Lowest: v.Lowest, Aside: v.Aside, Late: v.Late, Heard: v.Current(interval),
			RPC: e.rpcState(v), TxIndex: v.TxIndex, GRPC: e.grpc.state(p.ChainID()),
		}
		if !v.BlockTime.IsZero() {
			h.BlockAge = time.Since(v.BlockTime)
		}
		if err := errors.Join(v.restErr, v.CometErr); err != nil {
			h.LastError = err.Error()
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
	case e.calls.State() == gobreaker.StateOpen:
		return "does not answer calls"
	default:
		return fine
	}
}

// Ready is nil while one endpoint at least is fit to be read from. Otherwise
// the error says what each of them lacks.
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
	case h.Unasked || !h.Answering && h.LastError == "":
		return "has not answered yet"
	case !h.Answering:
		return fmt.Sprintf("does not answer: %s", h.LastError)
	case h.CatchingUp:
		return "is catching up with its chain"
	case h.Heard && h.BlockAge > p.maxBlockAge:
		return fmt.Sprintf("has no block newer than %s", h.BlockAge.Round(time.Second))
	case h.Height > 0 && p.Tip().Height-h.Height > nearby:
		return fmt.Sprintf("is %d blocks behind the newest that was read", p.Tip().Height-h.Height)
	default:
		return ""
	}
}

// Read implements heights.Reader.
func (e *endpoint) Read(ctx context.Context, height int64) (heights.Reading, error) {
	r := Request{Path: e.client.protocol.probe, Height: height}
	turn, err := e.queue.Acquire(ctx, r.queued())
	if err != nil {
		return heights.Reading{}, e.busy(err)
	}
	a, err := e.ask(ctx, r, height)
	turn.End(tellsOfLoad(err))
	if err != nil {
		return heights.Reading{}, err
	}
	return a.reading(), nil
}

// BlockHash implements heights.Reader.
func (e *endpoint) BlockHash(ctx context.Context, height int64) (string, error) {
	base := e.client.protocol.blocks
	if base == "" {
		return "", nil
	}
	r := Request{Path: base + strconv.FormatInt(height+1, 10), Unpinned: true, Cost: Page}
	turn, err := e.queue.Acquire(ctx, r.queued())
	if err != nil {
		return "", e.busy(err)
	}
	a, err := e.ask(ctx, r, 0)
	turn.End(tellsOfLoad(err))
	if err != nil {
		return "", err
	}
	hash, err := base64.StdEncoding.DecodeString(gjson.GetBytes(a.Body, "block.header.last_block_id.hash").Str)
	if err == nil && (a.Reason != OK || len(hash) == 0) {
		err = fmt.Errorf("%s names no block before block %d", r.Path, height+1)
	}
	return fmt.Sprintf("%X", hash), err
}

// sounds tells of a failure whether the node reads something else at that height. A
// height is probed once.
func (e *endpoint) sounds(ctx context.Context, r Request, height int64) bool {
	if r.Path == e.client.protocol.probe {
		return false
	}
	if height > 0 && e.sound.Load() == height {
		return true
	}
	sound, _ := e.readable(ctx, height)
	if sound {
		e.sound.Store(height)
	}
	return sound
}

// reading is what an answer says of its endpoint's blocks.
func (a *Answer) reading() heights.Reading {
	r := heights.Reading{Height: a.Height, Latest: a.Latest}
	switch {
	case a.NodeStatus == http.StatusNotFound: // no handler ran
		r.Outcome = heights.Unknown
	case a.Reason == Pruned:
		r.Outcome = heights.Pruned
	case a.Reason == FutureHeight:
		r.Outcome = heights.Future
	}
	return r
}
