package streams

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/figures"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// pagePaths are what a page shows.
var pagePaths = []string{streamedPath, "/staking/pool", "/staking/params", "/distribution/params", "/mint/params"}

// The names of the tally.
const frames, whole, batches, refused = "frames", "whole", "batches", "refused"

// pages are the answers that clients have seen together, by path and block.
type pages struct {
	url    atomic.Pointer[string] // of the replica
	client http.Client

	clients.Tally
	mu   sync.Mutex
	seen map[string]map[[32]byte]int // by path and block, how often each answer
}

// Pages measures whether pages mix blocks while the node stalls, fails and refuses, and the
// replica is replaced: frames of /live, and answers of /batch. Each answer is compared with
// what the node says at its block afterwards. It is an error where one differs.
func Pages(ctx context.Context, r *rig.Rig) error {
	enough, followers := 100_000, 200
	if r.Short {
		enough, followers = 500, 20
	}
	d, err := r.Chain(devnet.Options{Seed: 1, Interval: 250 * time.Millisecond})
	if err != nil {
		return err
	}
	t, err := replica(ctx, r, d)
	if err != nil {
		return err
	}
	p := &pages{seen: map[string]map[[32]byte]int{}}
	p.url.Store(&t.URL)
	running, stop := context.WithCancel(ctx)
	var asking sync.WaitGroup
	for range followers {
		asking.Go(func() { repeat(running, p.follow) })
	}
	for range 10 {
		asking.Go(func() { repeat(running, p.batch) })
	}
	t, err = p.fail(ctx, r, d, t, enough)
	stop()
	asking.Wait()
	defer t.Stop()
	if err != nil {
		return err
	}
	differ, err := p.differences(ctx)
	r.Table("pages of "+fmt.Sprint(len(pagePaths))+" paths while the node stalls, fails and refuses, and the replica is replaced",
		[]string{"frames", "without a failure", "batches", "batches refused", "answers compared", "not of their block"},
		[][]string{figures.Row(append(p.Row(frames, whole, batches, refused), len(p.seen), differ)...)})
	if differ > 0 {
		err = errors.Join(err, fmt.Errorf("%d answers are not of the block of their page", differ))
	}
	return err
}

func repeat(ctx context.Context, ask func(context.Context) error) {
	for ctx.Err() == nil {
		if ask(ctx) != nil {
			rig.Pause(ctx, 100*time.Millisecond)
		}
	}
}

// fail causes faults until there are so many frames, and returns the replica that is left.
func (p *pages) fail(ctx context.Context, r *rig.Rig, d *devnet.Devnet, t *rig.Replica, enough int) (*rig.Replica, error) {
	faults := []devnet.Fault{{Stall: true}, {ErrorRate: 0.5}, {Outage: devnet.Refuse}, {Latency: 40 * time.Millisecond, Jitter: 100 * time.Millisecond}}
	for n := 0; ctx.Err() == nil; n++ {
		if p.Of(frames) >= enough {
			return t, nil
		}
		if err := d.SetFaults(devnet.Faults{Node: faults[n%len(faults)]}); err != nil {
			return t, err
		}
		rig.Pause(ctx, 2*time.Second)
		if err := d.SetFaults(devnet.Faults{}); err != nil {
			return t, err
		}
		rig.Pause(ctx, 3*time.Second)
		if n%len(faults) == len(faults)-1 {
			next, err := replica(ctx, r, d)
			if err != nil {
				return t, err
			}
			p.url.Store(&next.URL)
			t.Stop()
			t = next
		}
	}
	return t, ctx.Err()
}

func (p *pages) open(ctx context.Context, path string) (*http.Response, error) {
	query := url.Values{"path": pagePaths}
	if path == "/live" {
		query.Set("stream.blocks", "true")
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, *p.url.Load()+path+"?"+query.Encode(), nil)
	if err != nil {
		return nil, err
	}
	return p.client.Do(request)
}

// A told is the data of an event, or of an answer of a batch.
type told struct {
	Path   string
	Height int64
	Status int
	Answer json.RawMessage
	Body   json.RawMessage
}

// follow notes what a client that draws at blocks has at each.
func (p *pages) follow(ctx context.Context) error {
	answer, err := p.open(ctx, "/live")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	page, event := map[string][32]byte{}, ""
	return events(answer.Body, func(name string, value []byte) error {
		switch name {
		case "event":
			event = string(value)
		case "data":
			var says told
			if err := json.Unmarshal(value, &says); err != nil {
				return err
			}
			switch event {
			case "block":
				p.note(says.Height, page)
			case "failure":
				delete(page, says.Path)
			default:
				page[says.Path] = sha256.Sum256(says.Answer)
			}
			event = ""
		}
		return nil
	})
}

func (p *pages) note(height int64, page map[string][32]byte) {
	p.Add(frames, 1)
	if len(page) == len(pagePaths) {
		p.Add(whole, 1)
	}
	p.add(height, page)
}

func (p *pages) add(height int64, page map[string][32]byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for path, sum := range page {
		key := fmt.Sprintf("%s@%d", path, height)
		if p.seen[key] == nil {
			p.seen[key] = map[[32]byte]int{}
		}
		p.seen[key][sum]++
	}
}

// batch notes the members of an answer.
func (p *pages) batch(ctx context.Context) error {
	answer, err := p.open(ctx, "/batch")
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var said struct {
		Height  int64
		Answers []told
	}
	err = json.NewDecoder(answer.Body).Decode(&said)
	if err != nil || answer.StatusCode != http.StatusOK {
		p.Add(refused, 1)
		return fmt.Errorf("status %d: %w", answer.StatusCode, err)
	}
	p.Add(batches, 1)
	page := map[string][32]byte{}
	for _, member := range said.Answers {
		if member.Status == http.StatusOK {
			page[member.Path] = sha256.Sum256(member.Body)
		}
	}
	p.add(said.Height, page)
	return nil
}

// differences counts the answers that are not what is answered at their block.
func (p *pages) differences(ctx context.Context) (n int, err error) {
	for key, sums := range p.seen {
		path, height, _ := strings.Cut(key, "@")
		text, err := rig.Get(ctx, *p.url.Load()+path+"?x-block-height="+height)
		if err != nil {
			return n, fmt.Errorf("%s: %w", key, err)
		}
		want := sha256.Sum256(bytes.TrimSpace([]byte(text)))
		for sum, times := range sums {
			if sum != want {
				n += times
			}
		}
	}
	return n, nil
}
