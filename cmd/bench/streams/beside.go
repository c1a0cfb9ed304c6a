package streams

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// A broadcaster is a server whose streams get an event at each call of next,
// which returns the event's height.
type broadcaster struct {
	*rig.Process
	*followers
	next func() (height int64, err error)
	took []float64 // milliseconds of events
	cpu  []float64 // microseconds of an event, one for each round
}

// round has all streams get some events.
func (b *broadcaster) round(ctx context.Context, events int) error {
	before, err := b.Usage()
	if err != nil {
		return err
	}
	for range events {
		began := time.Now()
		height, err := b.next()
		if err != nil {
			return err
		}
		if err := b.reach(ctx, height); err != nil {
			return err
		}
		b.took = append(b.took, b.since(began)...)
	}
	after, err := b.Usage()
	b.cpu = append(b.cpu, float64((after.CPU-before.CPU).Microseconds())/float64(events*len(b.conns)))
	return err
}

// besideFanOut measures n streams beside a bare fan-out of the same bytes, in
// interleaved rounds.
func besideFanOut(ctx context.Context, r *rig.Rig, n int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	d, err := r.Chain(devnet.Options{Seed: 1, Interval: -1})
	if err != nil {
		return err
	}
	t, err := r.Replica(ctx, rig.Serving{Node: d.NodeURL(), Comet: d.CometURL(), Env: roomForStreams})
	if err != nil {
		return err
	}
	defer t.Stop()
	streams := &broadcaster{Process: t.Process, next: func() (int64, error) { d.Advance(1); return d.Height(), nil }}
	if streams.followers, err = follow(ctx, rig.Host(t.URL), streamedPath, n); err != nil {
		return err
	}
	defer streams.close()
	if err := streams.reach(ctx, d.Height()); err != nil {
		return err
	}
	event, err := eventOf(ctx, rig.Host(t.URL))
	if err != nil {
		return err
	}
	bare, err := bareFanOut(ctx, r, event, n)
	if err != nil {
		return err
	}
	defer bare.close()
	both := []*broadcaster{streams, bare}
	for round := range r.Rounds {
		for _, i := range figures.Rotated(len(both), round) {
			if err := both[i].round(ctx, 5*streamedBlocks); err != nil {
				return err
			}
		}
	}
	ratios := figures.Ratios(streams.cpu, bare.cpu)
	r.Table(fmt.Sprintf("%d streams beside a bare fan-out of the same bytes, %d interleaved rounds of %d events", n, r.Rounds, 5*streamedBlocks),
		[]string{"", "CPU us an event", "p50 ms", "p99 ms"}, [][]string{streams.row("tipcache"), bare.row("bare fan-out")})
	r.Note("The CPU of tipcache is %s times that of the fan-out (median of the rounds; %s to %s).",
		figures.Decimal(figures.Median(ratios)), figures.Decimal(figures.Quantile(ratios, 0)), figures.Decimal(figures.Quantile(ratios, 1)))
	return nil
}

func (b *broadcaster) row(name string) []string {
	return []string{name, figures.Decimal(figures.Median(b.cpu)), figures.Decimal(figures.Median(b.took)), figures.Decimal(figures.Quantile(b.took, 0.99))}
}

// eventOf is what a stream at an address has as its event, after its id.
func eventOf(ctx context.Context, addr string) (string, error) {
	c := &clients.Conn{Addr: addr}
	defer c.Close()
	a, err := c.Get(ctx, streamedPath)
	return "." + strings.Trim(a.Header.Get("Etag"), `"`) + "\ndata: " + strings.TrimSpace(string(a.Body)) + "\n\n", err
}

// bareFanOut starts one with n clients.
func bareFanOut(ctx context.Context, r *rig.Rig, event string, n int) (*broadcaster, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	addr := rig.FreeAddr()
	p, err := r.Start(ctx, FanOutCommand+"-"+rig.Port(addr), nil, self, FanOutCommand, "-listen", addr)
	if err != nil {
		return nil, err
	}
	if err := p.Ready(ctx, rig.Answers("http://"+addr+"/")); err != nil {
		return nil, err
	}
	poster, height := &clients.Conn{Addr: addr}, int64(1000)
	context.AfterFunc(ctx, poster.Close)
	b := &broadcaster{Process: p, next: func() (int64, error) {
		height++
		_, err := poster.Do(ctx, clients.Request(http.MethodPost, "/", fmt.Sprintf("id: %d%s", height, event)))
		return height, err
	}}
	if b.followers, err = follow(ctx, addr, "/", n); err != nil {
		return nil, err
	}
	if _, err := b.next(); err != nil {
		return nil, err
	}
	return b, b.reach(ctx, height)
}
