package streams

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/bare"
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
	chain *devnet.Devnet // of tipcache
	empty rig.Usage      // of tipcache, before there were streams
	next  func() (height int64, err error)
	took  []float64 // milliseconds of events
	cpu   []float64 // microseconds of an event, one for each round
}

func (b *broadcaster) stop() {
	b.close()
	b.Stop()
}

// round has all streams get some events.
func (b *broadcaster) round(ctx context.Context, events int) error {
	spent, err := rig.Spent(func() error {
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
		return nil
	}, b.Process)
	if err == nil {
		b.cpu = append(b.cpu, float64(spent[0].Microseconds())/float64(events*len(b.conns)))
	}
	return err
}

// tipcacheStreams has n streams follow a replica whose chain moves when next is called.
func tipcacheStreams(ctx context.Context, r *rig.Rig, n int) (*broadcaster, error) {
	d, t, empty, err := fresh(ctx, r)
	if err != nil {
		return nil, err
	}
	b := &broadcaster{Process: t.Process, chain: d, empty: empty, next: func() (int64, error) { d.Advance(1); return d.Height(), nil }}
	if b.followers, err = follow(ctx, rig.Host(t.URL), streamedPath, n); err != nil {
		return nil, err
	}
	return b, b.reach(ctx, d.Height())
}

// besideFanOut measures n streams beside a bare fan-out of the same bytes, in
// interleaved rounds.
func besideFanOut(ctx context.Context, r *rig.Rig, n int) error {
	streams, err := tipcacheStreams(ctx, r, n)
	if err != nil {
		return err
	}
	defer streams.stop()
	event, err := eventOf(ctx, streams.conns[0].RemoteAddr().String())
	if err != nil {
		return err
	}
	other, err := fanOut(ctx, r, event, n)
	if err != nil {
		return err
	}
	defer other.stop()
	both := []*broadcaster{streams, other}
	if err := r.Interleave("streams", len(both), func(i int) error { return both[i].round(ctx, 5*streamedBlocks) }); err != nil {
		return err
	}
	ratios := figures.Ratios(streams.cpu, other.cpu)
	r.Table(fmt.Sprintf("%d streams beside a bare fan-out of the same bytes, %d interleaved rounds of %d events", n, r.Rounds, 5*streamedBlocks),
		[]string{"", "CPU us an event", "p50 ms", "p99 ms"}, [][]string{streams.row("tipcache"), other.row("bare fan-out")})
	r.Note("The CPU of tipcache is %s times that of the fan-out (median of the rounds; %s to %s).",
		figures.Decimal(figures.Median(ratios)), figures.Decimal(figures.Quantile(ratios, 0)), figures.Decimal(figures.Quantile(ratios, 1)))
	return nil
}

func (b *broadcaster) row(name string) []string {
	return figures.Row(name, figures.Median(b.cpu), figures.Median(b.took), figures.Quantile(b.took, 0.99))
}

// eventOf is what a stream at an address has as its event, after its id.
func eventOf(ctx context.Context, addr string) (string, error) {
	c := &clients.Conn{Addr: addr}
	defer c.Close()
	a, err := c.Get(ctx, streamedPath)
	return "." + strings.Trim(a.Header.Get("Etag"), `"`) + "\ndata: " + strings.TrimSpace(string(a.Body)) + "\n\n", err
}

// fanOut starts one with n clients.
func fanOut(ctx context.Context, r *rig.Rig, event string, n int) (*broadcaster, error) {
	p, url, err := bare.Start(ctx, r, bare.FanOut, nil, "")
	if err != nil {
		return nil, err
	}
	addr := rig.Host(url)
	poster, height := &clients.Conn{Addr: addr}, int64(1000)
	r.OnStop(poster.Close)
	b := &broadcaster{Process: p, next: func() (int64, error) {
		height++
		_, err := poster.Do(ctx, clients.Request(http.MethodPost, bare.EventsPath, fmt.Sprintf("id: %d%s", height, event)))
		return height, err
	}}
	if b.followers, err = follow(ctx, addr, bare.EventsPath, n); err != nil {
		return nil, err
	}
	if _, err := b.next(); err != nil {
		return nil, err
	}
	return b, b.reach(ctx, height)
}
