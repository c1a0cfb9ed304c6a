package audit

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream"
)

// redis is the source of entries that no node gave to this replica.
const redis = "redis"

// pause is between two tries to read where no node has anything to spare.
const pause = 5 * time.Millisecond

var errUnread = errors.New("the answer is not of that height")

// A version is what a source says at a height.
type version struct {
	*cache.Entry
	by string
}

// same tells whether two versions say the same. What is said of something that is not
// there, or not allowed, is in words that differ between nodes.
func (v version) same(w version) bool {
	if v.Status != w.Status || v.Status != http.StatusOK {
		return v.Status == w.Status
	}
	return v.Content == w.Content || v.Type == w.Type && v.Link == w.Link && bytes.Equal(v.Body, w.Body)
}

// check reads an entry again, and again if that differs.
func (a *Auditor) check(ctx context.Context, t task) {
	kept := version{t.Entry, t.By}
	if t.Shared || t.By == "" {
		kept.by = redis
	}
	read, err := a.read(ctx, &t, "", t.By)
	switch {
	case errors.Is(err, cache.ErrYielded):
		a.count(skipped)
	case err != nil:
		a.count(failed)
	case kept.same(read):
		a.count(same)
	default:
		a.confirm(ctx, &t, kept, read)
	}
}

// confirm reads both sides a second time. Only one that repeats itself speaks against
// an entry. One whose answers at the height are all different tells of something other than the state.
func (a *Auditor) confirm(ctx context.Context, t *task, kept, read version) {
	only, avoid := t.By, ""
	if kept.by == redis {
		only, avoid = "", read.by // another node may bear the entry out
	}
	first, err := a.read(ctx, t, only, avoid)
	second, err2 := a.read(ctx, t, read.by, "")
	switch {
	case errors.Join(err, err2) != nil || t.epoch != a.o.Epoch():
		a.count(unsettled)
		return
	case !second.same(read) && !second.same(kept):
		a.count(varying)
		a.reportVarying(t, read, second)
		return
	case !second.same(read):
		a.count(unsettled)
		return
	}
	if kept.by == redis && first.by != read.by && first.same(kept) {
		kept, read = read, first // it is the node that read it again that differs
	}
	a.count(different)
	a.report(t, kept, read, kept.by != redis && first.by != second.by && first.same(kept))
}

// read reads the entry of a task at its height, when a node has a request to spare.
func (a *Auditor) read(ctx context.Context, t *task, only, avoid string) (version, error) {
	for {
		reading := cache.Reading{Audit: true, Height: t.Entry.Height, Only: only, Avoid: avoid}
		e, err := a.ask(ctx, t, &reading)
		switch {
		case err == nil && reading.At != t.Entry.Height:
			return version{}, errUnread
		case err == nil:
			return version{e, reading.By}, nil
		case !errors.Is(err, cache.ErrYielded) || time.Since(t.since) > patience:
			return version{}, err
		}
		if err := upstream.Sleep(ctx, pause); err != nil {
			return version{}, err
		}
	}
}

// ask calls the origin.
func (a *Auditor) ask(ctx context.Context, t *task, reading *cache.Reading) (e *cache.Entry, err error) {
	ctx, cancel := context.WithTimeout(cache.WithReading(ctx, reading), a.o.Timeout)
	defer cancel()
	err = upstream.Guard(a.o.Logger, "audit", func() (err error) {
		e, err = t.Origin(ctx, t.Entry)
		return err
	})
	return e, err
}
