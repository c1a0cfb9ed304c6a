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

// redis is the source of entries that this replica received from no node.
const redis = "redis"

// pause is the time between two attempts to read while no node has spare capacity.
const pause = 5 * time.Millisecond

var errUnread = errors.New("the answer is from another height")

// version is the answer of a source at a height.
type version struct {
	*cache.Entry
	by string
}

// same reports whether two versions are equal. The texts of missing or refused items differ between nodes and are
// ignored.
func (v version) same(w version) bool {
	if v.Status != w.Status || v.Status != http.StatusOK {
		return v.Status == w.Status
	}
	return v.Content == w.Content || v.Type == w.Type && v.Link == w.Link && bytes.Equal(v.Body, w.Body)
}

// check reads an entry again, and confirms a difference.
func (a *Auditor) check(ctx context.Context, t task) {
	kept := version{t.Entry, t.Node}
	if t.Shared || t.Node == "" {
		kept.by = redis
	}
	a.differs.WithLabelValues(kept.by) // rates need a sample at zero
	read, err := a.read(ctx, &t, "", t.Node)
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

// confirm reads both sides once more. Only a source that repeats its answer counts against an entry. A source
// whose answers at the height all differ returns something other than the state.
func (a *Auditor) confirm(ctx context.Context, t *task, kept, read version) {
	only, avoid := t.Node, ""
	if kept.by == redis {
		only, avoid = "", read.by // another node may confirm the entry
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
		kept, read = read, first // the node of the second read is the one that differs
	}
	a.count(different)
	a.report(t, kept, read, kept.by != redis && first.by != second.by && first.same(kept))
}

// read reads the entry of a task at its height, when a node has spare capacity.
func (a *Auditor) read(ctx context.Context, t *task, only, avoid string) (version, error) {
	for {
		reading := cache.Reading{Audit: true, Height: t.Entry.Height, Only: only, Avoid: avoid}
		e, err := a.callOrigin(ctx, t, &reading)
		switch {
		case err == nil && reading.At != t.Entry.Height:
			return version{}, errUnread
		case err == nil:
			a.differs.WithLabelValues(reading.Node)
			return version{e, reading.Node}, nil
		case !errors.Is(err, cache.ErrYielded) || time.Since(t.since) > patience:
			return version{}, err
		}
		if err := upstream.Sleep(ctx, pause); err != nil {
			return version{}, err
		}
	}
}

// callOrigin calls the origin with a timeout. A panic becomes an error.
func (a *Auditor) callOrigin(ctx context.Context, t *task, reading *cache.Reading) (e *cache.Entry, err error) {
	ctx, cancel := context.WithTimeout(cache.WithReading(ctx, reading), a.o.Timeout)
	defer cancel()
	err = upstream.Guard(a.o.Logger, "audit", func() (err error) {
		e, err = t.Origin(ctx, t.Entry)
		return err
	})
	return e, err
}
