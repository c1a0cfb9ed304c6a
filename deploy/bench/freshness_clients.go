package main

import (
	"context"
	"hash/maphash"
	"io"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet"
)

// blockClock knows when each block came.
type blockClock struct {
	mu   sync.Mutex
	tip  int64
	came map[int64]time.Time
}

// watch looks for new blocks until ctx ends.
func (c *blockClock) watch(ctx context.Context, chain *devnet.Devnet) {
	for ctx.Err() == nil {
		if h := chain.Height(); h > c.now() {
			c.mu.Lock()
			if c.came == nil {
				c.came = map[int64]time.Time{}
			}
			c.tip, c.came[h] = h, time.Now()
			c.mu.Unlock()
		}
		time.Sleep(time.Millisecond)
	}
}

// now is the newest block.
func (c *blockClock) now() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tip
}

// at is when a block came.
func (c *blockClock) at(height int64) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.came[height]
}

// wait returns when a block has come, with its height or a later one's.
func (c *blockClock) wait(ctx context.Context, height int64) int64 {
	for ctx.Err() == nil && c.now() < height {
		time.Sleep(time.Millisecond)
	}
	return c.now()
}

// sightings are the answers that one server's clients got.
type sightings struct {
	mu     sync.Mutex
	all    []sighting
	failed map[string]int // by key
}

// sighting is one answer.
type sighting struct {
	key  string
	hash uint64 // of the body
	sent time.Time
	tip  int64 // when it was sent
}

var bodySeed = maphash.MakeSeed()

// client polls random keys on a connection of its own until ctx ends.
func (s *sightings) client(ctx context.Context, clock *blockClock, url string, groups []keyGroup) {
	transport := &http.Transport{MaxIdleConnsPerHost: 1, DisableCompression: true}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, Timeout: 30 * time.Second}
	var keys []string
	for _, g := range groups {
		keys = append(keys, g.keys...)
	}
	for ctx.Err() == nil {
		key := keys[rand.IntN(len(keys))]
		seen := sighting{key: key, tip: clock.now(), sent: time.Now()}
		body, err := bodyOf(context.WithoutCancel(ctx), c, url+key, "")
		seen.hash = maphash.Bytes(bodySeed, body)
		s.add(seen, err)
		time.Sleep(time.Duration(float64(freshPause) * (0.5 + rand.Float64())))
	}
}

func (s *sightings) add(seen sighting, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		s.all = append(s.all, seen)
		return
	}
	if s.failed == nil {
		s.failed = map[string]int{}
	}
	s.failed[seen.key]++
}

// bodyOf asks for a URL, at a height unless that is "".
func bodyOf(ctx context.Context, c *http.Client, url, height string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	if height != "" {
		req.Header.Set("X-Block-Height", height)
	}
	resp, err := c.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = &statusError{resp.Status}
	}
	return body, err
}

type statusError struct{ status string }

func (e *statusError) Error() string { return "status " + e.status }
