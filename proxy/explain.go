package proxy

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/fallback"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/web"
)

// An Inquiry is a request to be explained. Keys and rate limits are not part
// of it: it is treated as admitted.
type Inquiry struct {
	URL    string // path and query, perhaps with the scheme and host before them; or a method of RPC or gRPC
	Height string // X-Block-Height; "" for none
	Body   string // of a collection listing; "" means the first page
}

// An Explanation says what a request would come to now, and why.
type Explanation struct {
	Request string   `json:"request"`
	Refusal *Refusal `json:"refusal,omitempty"` // nil: the request is good, and all below is known
	Access  string   `json:"access,omitempty"`  // access rule that applies

	Route  string          `json:"route,omitempty"`
	Class  string          `json:"class,omitempty"` // live, params, pinned or collections
	Asks   string          `json:"asks,omitempty"`  // what the origin is asked on a miss
	Key    string          `json:"key,omitempty"`   // in memory, and in Redis behind the chain's name
	Chain  string          `json:"chain,omitempty"` // "" while none is known: Redis is not used
	Policy *ExplainedClass `json:"policy,omitempty"`
	Tip    int64           `json:"tip,omitempty"` // 0: none is known, or it does not count

	Nodes []ExplainedNode `json:"nodes,omitempty"` // of the chain; the caller fills them in

	Memory *ExplainedEntry `json:"memory,omitempty"` // nil: nothing
	Redis  *ExplainedEntry `json:"redis,omitempty"`

	RedisState string `json:"redis_state,omitempty"` // closed, half-open or open, as its breaker is; off
	RedisError string `json:"redis_error,omitempty"` // why nothing is known of Redis
	Lease      string `json:"lease,omitempty"`       // time left to the replica that asks the origin now

	ReadAhead bool `json:"read_ahead,omitempty"` // it is read when the next block comes, before a client asks, if it is asked for as often in this one

	FastLane string `json:"fast_lane,omitempty"` // yes: a request that means the same as one before would be answered there now; or no, and why

	Verdict string `json:"verdict"` // hit, stale, miss, stale_error, answered or refused; for a method allowed or denied
	Why     string `json:"why"`
}

// ExplainedNode says which blocks can be read of a node.
type ExplainedNode struct {
	Name   string `json:"name"`
	Lowest int64  `json:"lowest"`          // reads below it prefer other nodes; 0: unknown
	Height int64  `json:"height"`          // newest; 0: unknown
	Unfit  string `json:"unfit,omitempty"` // why it is not fit to be read from, as /readyz says it
}

// A Refusal is what the client gets instead.
type Refusal struct {
	Status int    `json:"status"`
	Body   string `json:"body"`
}

// ExplainedClass is the policy in force for the request.
type ExplainedClass struct {
	FreshBlocks  int64  `json:"fresh_blocks"`
	StaleBlocks  int64  `json:"stale_blocks"`
	ErrorBlocks  int64  `json:"error_blocks"`
	Fresh        string `json:"fresh"`
	Stale        string `json:"stale"`
	StaleIfError string `json:"stale_if_error"`
	Immutable    bool   `json:"immutable"`
}

// ExplainedEntry is an answer as a store has it.
type ExplainedEntry struct {
	State   string `json:"state"`                // fresh, stale, stale_if_error or expired
	Height  int64  `json:"height,omitempty"`     // block it is known to hold at; 0: none
	Age     string `json:"age"`                  // since the origin last said so
	Expires string `json:"expires_in,omitempty"` // absent after that whatever the policy says; "" for no such time
	Dropped string `json:"dropped_in,omitempty"` // when Redis removes it
	Status  int    `json:"status"`
	Bytes   int    `json:"bytes"` // of its body, not compressed
	ETag    string `json:"etag"`
}

// Explain says what a request would come to. It asks no origin, waits for
// nothing but Redis, and changes nothing. An error says that the URL is none.
func (s *Server) Explain(ctx context.Context, asked Inquiry) (Explanation, error) {
	e := &Explanation{}
	if !strings.Contains(asked.URL, "://") && !strings.HasPrefix(asked.URL, "/") {
		return *e, s.explainMethod(asked.URL, e)
	}
	r, err := asked.request(ctx)
	if err != nil {
		return *e, err
	}
	e.Request = r.Method + " " + r.RequestURI
	v, r := s.mounted(r)
	r = v.tidied(r)
	rt := v.route(r)
	rule := s.ruleOf(tidyPath(r.URL.Path), e)
	switch err = s.stack.Oversized(r); {
	case err != nil:
	case rule != nil && rule.Deny:
		err = &failure.Failure{Status: http.StatusForbidden, Public: "denied by the access rule: " + rule.Text}
	default:
		err = v.explain(r, rt, e)
	}
	if err != nil {
		status, _, body := rt.Render(r, http.Header{}, failure.Of(err))
		e.Refusal = &Refusal{status, string(body)}
		e.Verdict, e.Why = "refused", "The request is answered before the cache or anybody else is asked."
	}
	return *e, nil
}

// explainMethod says which access rule applies to a method of RPC or gRPC.
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

// request is the request that a client would send.
func (asked Inquiry) request(ctx context.Context) (*http.Request, error) {
	u, err := url.Parse(asked.URL)
	if err != nil || !strings.HasPrefix(u.Path, "/") {
		return nil, errors.New("url: not a URL with a path: " + web.Short(asked.URL))
	}
	method := http.MethodGet
	if asked.Body != "" || tidyPath(u.Path) == collections.Path {
		method = http.MethodPost
		asked.Body = cmp.Or(asked.Body, "{}")
	}
	target := &url.URL{Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}
	r, err := http.NewRequestWithContext(ctx, method, "/", strings.NewReader(asked.Body))
	if err != nil {
		return nil, err
	}
	r.URL, r.RequestURI, r.Host = target, target.RequestURI(), u.Host
	if asked.Height != "" {
		r.Header.Set(respond.HeightHeader, asked.Height)
	}
	return r, nil
}

// explain explains a request that takes a route. The error is why it is refused.
func (v *router) explain(r *http.Request, rt web.Route, e *Explanation) error {
	if rt.Name == fallback.Name {
		e.Verdict, e.Why = "answered", "It is passed on to the fallback service of "+cmp.Or(v.base, "/")+", and nothing of it is kept."
		return nil
	}
	if rt.Plan == nil {
		e.Verdict, e.Why = "answered", "It describes the interface and is always at hand."
		return nil
	}
	p, err := rt.Plan(r)
	switch {
	case err != nil:
	case p.Route != "":
		v.inspect(r.Context(), e, p)
	case v.exact || rt.Serve == nil:
		e.Verdict, e.Why = "answered", "It is answered at once or passed on to the node, and nothing of it is kept."
	}
	return err
}

// inspect fills in what the stores have and what that comes to.
func (s *Server) inspect(ctx context.Context, e *Explanation, p web.Plan) {
	q := p.Query
	found, now := s.o.Cache.Inspect(ctx, q), time.Now()
	e.Route, e.Class, e.Asks = p.Route, p.Class, p.Asks
	e.Key, e.Chain, e.Tip = q.Key, found.Namespace, q.Tip
	e.Policy = &ExplainedClass{
		FreshBlocks: q.Policy.FreshBlocks, StaleBlocks: q.Policy.StaleBlocks, ErrorBlocks: q.Policy.ErrorBlocks,
		Fresh: q.Policy.Fresh.String(), Stale: q.Policy.Stale.String(), StaleIfError: q.Policy.StaleIfError.String(), Immutable: q.Policy.Immutable,
	}
	e.Memory, e.Redis = explainEntry(found.Memory, now), explainEntry(found.Shared, now)
	e.RedisState = found.SharedState
	if found.SharedErr != nil {
		e.RedisError = found.SharedErr.Error()
	}
	if found.Lease > 0 {
		e.Lease = found.Lease.String()
	}
	e.Verdict = found.Forecast.String()
	e.Why = reasoning{q, found, p.Origin, now}.sentence()
	e.ReadAhead, e.FastLane = found.Ahead, "yes, for what was asked before"
	if why := s.stack.NoLane(); why != "" {
		e.FastLane = "no: " + why
	} else if found.Forecast != cache.Hit || found.Store != "memory" {
		e.FastLane = "no: memory has no fresh answer"
	}
}

func explainEntry(at cache.Stored, now time.Time) *ExplainedEntry {
	if at.Entry == nil {
		return nil
	}
	e := &ExplainedEntry{
		State: at.State.String(), Height: at.Height, Age: ago(now.Sub(at.ReadAt)),
		Status: at.Status, Bytes: len(at.Body), ETag: at.ETag,
	}
	if !at.Expires.IsZero() {
		e.Expires = ago(at.Expires.Sub(now))
	}
	if at.Expiry > 0 {
		e.Dropped = ago(at.Expiry)
	}
	return e
}

// ago is a time as people read it.
func ago(d time.Duration) string {
	if d < time.Minute {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
