package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/fallback"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
)

// An Inquiry is a request to explain. API keys and rate limits are not applied to it.
type Inquiry struct {
	URL    string // URL or path with query, or a method of RPC or gRPC
	Height string // X-Block-Height; "" for none
	Body   string // body of a collection listing; "" means the first page
}

// An Explanation describes the response that a request would get now, and why.
type Explanation struct {
	Request string   `json:"request"`
	Refusal *Refusal `json:"refusal,omitempty"` // nil if the request is valid
	Access  string   `json:"access,omitempty"`  // access rule that applies

	Ignored string `json:"ignored,omitempty"` // parameters of the query that the route does not take

	Route  string          `json:"route,omitempty"`
	Class  string          `json:"class,omitempty"` // live, params, pinned or collections
	Asks   string          `json:"asks,omitempty"`  // what a miss requests from the upstream
	Key    string          `json:"key,omitempty"`   // in memory, and in Redis after the chain id
	Chain  string          `json:"chain,omitempty"` // chain id; "" while it is unknown, when Redis is not used
	Policy *ExplainedClass `json:"policy,omitempty"`
	Tip    int64           `json:"tip,omitempty"` // 0 if it is unknown or not used; for collections the edition of the store

	Nodes []ExplainedNode `json:"nodes,omitempty"` // nodes of the chain; set by the caller

	Memory *ExplainedEntry `json:"memory,omitempty"` // nil for no entry
	Redis  *ExplainedEntry `json:"redis,omitempty"`

	RedisState string `json:"redis_state,omitempty"` // state of its breaker: closed, half-open or open; off without Redis
	RedisError string `json:"redis_error,omitempty"` // why Redis could not be read
	Lease      string `json:"lease,omitempty"`       // time left of the lease of the replica that reads the upstream now

	ReadAhead bool `json:"read_ahead,omitempty"` // it is read ahead at the next block if clients request it as often as before

	FastLane string `json:"fast_lane,omitempty"` // yes if the fast lane would answer a repeated request now, or no and why

	Verdict string `json:"verdict"` // hit, stale, miss, stale_error, answered or refused; for a method allowed or denied
	Why     string `json:"why"`
}

// An ExplainedNode describes a node.
type ExplainedNode struct {
	Name   string `json:"name"`
	Lowest int64  `json:"lowest"`          // reads below it prefer other nodes; 0 if unknown
	Height int64  `json:"height"`          // newest block; 0 if unknown
	Unfit  string `json:"unfit,omitempty"` // why it is not read from, as in /readyz
}

// A Refusal is the response to a request that is refused.
type Refusal struct {
	Status int    `json:"status"`
	Body   string `json:"body"`
}

// An ExplainedClass is the policy that applies to the request.
type ExplainedClass struct {
	FreshBlocks  int64  `json:"fresh_blocks"`
	StaleBlocks  int64  `json:"stale_blocks"`
	ErrorBlocks  int64  `json:"error_blocks"`
	Fresh        string `json:"fresh"`
	Stale        string `json:"stale"`
	StaleIfError string `json:"stale_if_error"`
	Immutable    bool   `json:"immutable"`
}

// An ExplainedEntry is the entry in one store.
type ExplainedEntry struct {
	State   string `json:"state"`                // fresh, stale, stale_if_error or expired
	Height  int64  `json:"height,omitempty"`     // newest block at which it is known to be valid; 0 if unknown, and for collections
	Age     string `json:"age"`                  // since the upstream last confirmed it
	Expires string `json:"expires_in,omitempty"` // when it expires regardless of the policy; "" for never
	Dropped string `json:"dropped_in,omitempty"` // when Redis removes it
	Status  int    `json:"status"`
	Bytes   int    `json:"bytes"` // size of the uncompressed body
	ETag    string `json:"etag"`
}

// Explain describes the response that a request would get. It sends no request to an upstream, waits only for Redis, and
// changes nothing. It returns an error if the URL is invalid.
func (s *Server) Explain(ctx context.Context, in Inquiry) (Explanation, error) {
	e := &Explanation{}
	if !strings.Contains(in.URL, "://") && !strings.HasPrefix(in.URL, "/") {
		return *e, s.explainMethod(in.URL, e)
	}
	asked, err := in.request(ctx)
	if err != nil {
		return *e, err
	}
	r := web.NewRequest(asked)
	e.Request = r.Method + " " + r.RequestURI
	if web.IsHealthCheck(asked) && !s.passesHealth(asked.URL.Path) {
		e.Verdict, e.Why = "answered", "It is a health check, which needs no upstream. No limit, key or access rule applies to it."
		return *e, nil
	}
	routers := s.routers()
	v := routers[slices.IndexFunc(routers, func(v *router) bool { return v.engine.Enter(r) })]
	rt := v.route(r)
	rule := s.ruleOf(v.operationOf(r.URL.Path), e)
	switch err = s.stack.Oversized(asked); {
	case err != nil:
	case rule != nil && rule.Deny:
		err = limits.ErrDenied(v.operationOf(r.URL.Path)) // e.Access has the rule
	default:
		err = v.explain(r, rt, e)
	}
	if e.FastLane != "" && rule != nil && s.stack.Admission.AsksRedis(rule.Rate) {
		e.FastLane = "no: the limit of an access rule is below one request per second, and kept in Redis"
	}
	if err != nil {
		status, _, body := rt.Render(r, http.Header{}, failure.Of(err))
		e.Refusal = &Refusal{status, string(body)}
		e.Verdict, e.Why = "refused", "The request is refused before the cache or an upstream is read."
	}
	return *e, nil
}

// explainMethod describes the access rule that applies to a method of RPC or gRPC.
func (s *Server) explainMethod(name string, e *Explanation) error {
	var passed []string
	if s.o.RPC != nil {
		passed = s.o.RPC.Methods
	}
	if !rpc.HasMethod(name, passed) && !grpcMethod.MatchString(name) {
		return errors.New("url: neither a URL with a path nor a method: " + web.Short(name))
	}
	e.Request, e.Verdict, e.Why = name, "allowed", "No access rule denies this method."
	if rule := s.ruleOf(name, e); rule != nil && rule.Deny {
		e.Verdict, e.Why = "denied", "The access rule denies this method on all listeners."
	}
	return nil
}

var grpcMethod = regexp.MustCompile(`^[\w.]+\.\w+/\w+$`)

// ruleOf returns the access rule for an operation, nil for none, and its text in e.
func (s *Server) ruleOf(operation string, e *Explanation) *limits.Rule {
	rule := s.stack.Admission.Limits.Load().Rule(operation)
	if rule != nil {
		e.Access = rule.Text
	}
	return rule
}

// request returns the request that a client would send.
func (in Inquiry) request(ctx context.Context) (*http.Request, error) {
	parse := url.Parse
	if strings.HasPrefix(in.URL, "//") { // a path, as in a request
		parse = url.ParseRequestURI
	}
	u, err := parse(in.URL)
	if err != nil || !strings.HasPrefix(u.Path, "/") {
		return nil, errors.New("url: not a URL with a path: " + web.Short(in.URL))
	}
	method := http.MethodGet
	if in.Body != "" || web.TidyPath(u.Path) == collections.Path {
		method = http.MethodPost
		in.Body = cmp.Or(in.Body, "{}")
	}
	target := &url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}
	r, err := http.NewRequestWithContext(ctx, method, "/", strings.NewReader(in.Body))
	if err != nil {
		return nil, err
	}
	r.URL, r.RequestURI, r.Host = target, target.RequestURI(), u.Host
	if in.Height != "" {
		r.Header.Set(respond.HeightHeader, in.Height)
	}
	return r, nil
}

// explain describes a request for a route. It returns an error if the request is refused.
func (v *router) explain(r *web.Request, rt web.Route, e *Explanation) error {
	if rt.Name == fallback.Name {
		e.Verdict, e.Why = "answered", "It is passed on to the fallback service of "+cmp.Or(v.base, "/")+", and the response is not cached."
		return nil
	}
	if rt.Plan == nil {
		e.Verdict, e.Why = "answered", "It is built in and needs no upstream."
		return nil
	}
	if rt.Waits {
		stream.TakeWait(r)
	}
	p, err := rt.Plan(r)
	if r.Options != nil {
		p.NoLane = cmp.Or(p.NoLane, "the URL has a parameter of this server")
	}
	switch {
	case err != nil:
	case p.Route != "":
		v.inspect(r.Context(), e, p)
	default:
		e.Verdict, e.Why = "answered", "It is answered at once or passed on to a node, and the response is not cached."
	}
	return err
}

// inspect adds the entries in the stores and the resulting response to e.
func (s *Server) inspect(ctx context.Context, e *Explanation, p web.Plan) {
	q := p.Query
	found, now := s.o.Cache.Inspect(ctx, q, p.Loader), time.Now()
	e.Route, e.Class, e.Asks, e.Ignored = p.Route, p.Class, p.Asks, p.Ignored
	e.Key, e.Chain, e.Tip = q.Key, found.Namespace, q.Tip
	e.Policy = &ExplainedClass{
		FreshBlocks: q.Policy.FreshBlocks, StaleBlocks: q.Policy.StaleBlocks, ErrorBlocks: q.Policy.ErrorBlocks,
		Fresh: q.Policy.Fresh.String(), Stale: q.Policy.Stale.String(), StaleIfError: q.Policy.StaleIfError.String(), Immutable: q.Policy.Immutable,
	}
	e.Memory, e.Redis = explainEntry(found.Memory, now), explainEntry(found.Shared, now)
	if p.Class == "collections" { // their heights are editions of the store
		e.Memory.forgetHeight()
		e.Redis.forgetHeight()
	}
	e.RedisState = found.SharedState
	if found.SharedErr != nil {
		e.RedisError = found.SharedErr.Error()
	}
	if found.Lease > 0 {
		e.Lease = found.Lease.String()
	}
	e.Verdict = string(found.Forecast)
	e.Why = reasoning{q, found, p.Origin, now, p.Class == "collections"}.sentence()
	e.ReadAhead, e.FastLane = found.Ahead, "yes, for repeated requests"
	if why := cmp.Or(s.stack.NoLane(), p.NoLane); why != "" {
		e.FastLane = "no: " + why
	} else if found.Forecast != cache.Hit || found.Store != "memory" {
		e.FastLane = "no: memory has no fresh entry"
	} else if !record.LaneMayServe(found.Memory.Entry) {
		e.FastLane = fmt.Sprintf("no: its status is %d", found.Memory.Entry.Status)
	}
}

func explainEntry(at cache.Stored, now time.Time) *ExplainedEntry {
	if at.Entry == nil {
		return nil
	}
	e := &ExplainedEntry{
		State: at.State.String(), Height: at.Entry.Height, Age: ago(now.Sub(at.Entry.ReadAt)),
		Status: at.Entry.Status, Bytes: len(at.Entry.Body), ETag: at.Entry.ETag,
	}
	if !at.Entry.Expires.IsZero() {
		e.Expires = ago(at.Entry.Expires.Sub(now))
	}
	if at.Expiry > 0 {
		e.Dropped = ago(at.Expiry)
	}
	return e
}

func (e *ExplainedEntry) forgetHeight() {
	if e != nil {
		e.Height = 0
	}
}

// ago rounds a duration for readers.
func ago(d time.Duration) string {
	if d < time.Minute {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
