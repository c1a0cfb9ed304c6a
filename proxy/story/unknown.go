package story

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// An unknown serves paths without a row by passing them to a node. Their responses may depend on more than the state.
// Therefore they are cached until the next block at most, and do not name a block.
type unknown struct {
	ep      *dialect.Endpoint
	origin  *origin
	waiters *limits.Places
	absent  absentPaths
}

// absentPaths has the times when paths that the nodes do not have may be read again, by their digests. It is a part of
// [otter.Cache], and an interface so that packages that name a type of this one do not compile otter's generic methods once more.
type absentPaths interface {
	GetIfPresent(path uint64) (time.Time, bool)
	Set(path uint64, until time.Time) (time.Time, bool)
}

// maxAbsent is the maximum number of absent paths to remember.
const maxAbsent = 1000

// maxUnknownQuery is the longest query, in bytes, that is passed to a node with a path that no row describes.
const maxUnknownQuery = 1 << 10

// newUnknown mounts the row in a table of its own, which serves the paths that the other table does not.
func (h *Handler) newUnknown(r *blocks.Reader) (u *unknown, err error) {
	row := dialect.Row{Name: dialect.Other, Pattern: "/{path=**}", Class: blocks.Unknown, Cost: node.Unknown, Query: dialect.Anything}
	absent := otter.Must(&otter.Options[uint64, time.Time]{MaximumSize: maxAbsent, Executor: func(upkeep func()) { upkeep() }})
	u = &unknown{absent: absent, origin: &origin{h: h}, waiters: r.Stack.Admission.NewPlaces("ask for paths that this server does not know")}
	anyPath := func(name string, _ bool) (dialect.Field, error) {
		return dialect.Field{Name: name, Kind: dialect.Kind{Read: func(path string) (string, bool) { return path, true }}}, nil
	}
	kind := &blocks.Kind{Headers: func(*cache.Entry, string) blocks.ResponseHeaders {
		return blocks.ResponseHeaders{Vary: respond.HeightHeader + ", " + respond.MinHeightHeader + ", " + respond.MinEVMHeader, NoHeight: true}
	}}
	if u.ep, err = dialect.NewTable(h.Options, r).Mount(row, anyPath, kind, u); err == nil {
		u.ep.Route.Serve, u.ep.Route.Render, u.ep.Route.Plan = u.serve, MissRenderer(h.o.Shape), u.planAfter(u.ep.Route.Plan)
	}
	return u, err
}

// planAfter returns a function that returns the plan of a request which may be passed to a node.
func (u *unknown) planAfter(plan func(*web.Request) (web.Plan, error)) func(*web.Request) (web.Plan, error) {
	return func(r *web.Request) (p web.Plan, err error) {
		if _, err = u.read(r); err == nil {
			p, err = plan(r)
			p.NoLane = "this server does not know the path"
		}
		return p, err
	}
}

// read parses a request. It fails if the request may not be passed to a node, or if the nodes do not have its path.
func (u *unknown) read(r *web.Request) (*blocks.Read, error) {
	if part := ambiguous(r); part != "" {
		f := u.origin.h.o.NoSuchPath(r)
		f.Public += "; a path with " + part + " is not passed to the node"
		return nil, f
	}
	if len(r.URL.RawQuery) > maxUnknownQuery {
		return nil, failure.BadInput("the query is longer than %d bytes; with a path that this server does not know, no longer one is passed to the node", maxUnknownQuery)
	}
	q, err := u.ep.Parse(r)
	if err != nil {
		return nil, err
	}
	if until, _ := u.absent.GetIfPresent(maphash.String(u.origin.h.seed, q.Ask.Path)); time.Now().Before(until) {
		return nil, u.origin.h.o.NoSuchPath(r)
	}
	return q, nil
}

func (u *unknown) serve(r *web.Request) error {
	r.Record.KeepOutOfLane()
	q, err := u.read(r)
	if err != nil {
		return err
	}
	leave, err := u.waiters.Enter(&r.Record.Client, time.Second)
	if err != nil {
		return failure.OfUnknown(err)
	}
	defer leave()
	answer := u.origin.h.Reader.Serve
	if q.Pinned > 0 {
		answer = u.ep.Pass
	}
	switch err := answer(r, q); {
	case err == nil:
		return nil
	case errors.Is(err, errNoPath):
		return u.origin.h.o.NoSuchPath(r)
	default:
		return failure.OfUnknown(err)
	}
}

// ambiguous returns the part of a request's path that servers read in several ways, "" for none.
func ambiguous(r *web.Request) string {
	raw, _, _ := strings.Cut(cmp.Or(r.RequestURI, r.URL.EscapedPath()), "?")
	if _, rest, absolute := strings.Cut(raw, "://"); absolute && raw[0] != '/' { // as it is sent to a proxy
		raw = rest
	}
	raw = strings.ToLower(raw)
	for _, part := range []string{"//", "%2f", "%5c"} {
		if strings.Contains(raw, part) {
			return strconv.Quote(part)
		}
	}
	if r.URL.Path == "*" { // of the whole server
		return strconv.Quote(r.URL.Path)
	}
	return web.AmbiguousPart(r.URL.Path)
}

// Ask implements [blocks.Source].
func (u *unknown) Ask(ctx context.Context, q *blocks.Read, ask node.Request, before *cache.Entry) (*node.Answer, error) {
	a, err := u.origin.Ask(ctx, q, ask, before)
	if err == nil && a.NoPath {
		u.absent.Set(maphash.String(u.origin.h.seed, q.Ask.Path), time.Now().Add(u.origin.h.Reader.Negative()))
		return nil, errNoPath
	}
	return a, err
}

// Entry implements [blocks.Source].
func (u *unknown) Entry(q *blocks.Read, a *node.Answer, before *cache.Entry) (*cache.Entry, error) {
	return u.origin.Entry(q, a, before)
}

// errNoPath is the error of a read of a path that the node does not have.
var errNoPath = &failure.Failure{Status: http.StatusNotFound, Public: "no such path", Expected: true}
