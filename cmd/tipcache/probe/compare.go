package probe

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/story/documented"
	"github.com/tipcache/tipcache/upstream"
)

const (
	awaitBlock     = time.Minute            // how long a comparison waits for a later block
	awaitPause     = 100 * time.Millisecond // between two checks
	maxDifferences = 10                     // in a report
)

// A Comparison counts the responses that were read again at their blocks.
type Comparison struct {
	Compared    int          `json:"compared"`
	Equal       int          `json:"equal"`
	OtherBlock  int          `json:"other_block"` // the second response names another block than the one asked for
	Failed      int          `json:"failed"`      // the second read failed
	Differences []Difference `json:"differences"` // the first ones
}

// A Difference is the first field in which two responses at one height differ.
type Difference struct {
	Path   string `json:"path"`
	Height int64  `json:"height"`
	Field  string `json:"field"`
	Got    string `json:"got"`  // the endpoint's value at first
	Want   string `json:"want"` // the value of the second read
}

// String returns the difference in one line.
func (d Difference) String() string {
	return printable(fmt.Sprintf("%s at block %d: %s is %s, want %s", d.Path, d.Height, d.Field, d.Got, d.Want))
}

// compareSamples compares some of the endpoint's samples until ctx ends.
func (e *endpoint) compareSamples(ctx context.Context) {
	pause := time.Duration(sampleEvery / e.run.Rate * float64(time.Second))
	for {
		select {
		case <-ctx.Done():
			return
		case r := <-e.candidates:
			e.compare(ctx, r)
		}
		if upstream.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// compare compares a response with two later reads at its block, by the endpoint and by the trusted node. It waits until each
// of them has a later block: while a node commits a block, it may answer a read at the block before with the state of the new one.
func (e *endpoint) compare(ctx context.Context, r response) {
	if await(ctx, func() bool { return e.newest.Load() > r.height }) {
		e.compareWith(ctx, e.server, r, &e.pinned)
	}
	if node := e.run.against; node != nil && node.api == e.api && await(ctx, func() bool { return node.hasBlock(ctx, r.height+1) }) {
		e.compareWith(ctx, node, r, &e.trusted)
	}
}

// await waits until ok returns true. It returns false if that takes too long or ctx ends.
func await(ctx context.Context, ok func() bool) bool {
	ctx, cancel := context.WithTimeout(ctx, awaitBlock)
	defer cancel()
	for !ok() {
		if upstream.Sleep(ctx, awaitPause) != nil {
			return false
		}
	}
	return true
}

// compareWith reads a response again from a server at its block, and records the result in c.
func (e *endpoint) compareWith(ctx context.Context, s *server, r response, c *Comparison) {
	a := s.read(ctx, s.client, r.query, r.height)
	if ctx.Err() != nil {
		return
	}
	d, differs := Difference{}, false
	if a.problem == "" {
		d, differs = firstDifference(e.api.shape(r.query, r.value), e.api.shape(r.query, a.value))
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	c.Compared++
	switch {
	case a.problem != "":
		c.Failed++
	case a.height > 0 && a.height != r.height:
		c.OtherBlock++
	case !differs:
		c.Equal++
	case len(c.Differences) < maxDifferences:
		d.Path, d.Height = r.query.String(), r.height
		c.Differences = append(c.Differences, d)
	}
}

// shape returns a response of Story in the documented shape, if it has one, because a tipcache may serve this shape and a node
// never does.
func (a api) shape(q query, value []byte) []byte {
	path, _, _ := strings.Cut(q.path, "?")
	if a != storyREST {
		return value
	}
	for _, route := range story.Table(nil) {
		if route.Pattern == path {
			if shaped, err := documented.Shape(value, route.Msg); err == nil {
				return shaped.Body
			}
		}
	}
	return value
}
