package config

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Validate checks the whole and joins all that is wrong with it.
func (c Config) Validate() error {
	v := &validation{}
	v.address("listen", c.Listen)
	if c.Admin != "none" {
		v.address("admin", c.Admin)
	}
	v.chain(c.Chain)
	v.class("classes.live", c.Classes.Live)
	v.class("classes.params", c.Classes.Params)
	v.redis(c)
	v.collections(c.Collections)
	v.access(c)
	v.index(c)
	v.metadata(c.Metadata)
	v.sizes(c)
	v.deadlines(c)
	v.oneOf("log.level", c.Log.Level, "debug", "info", "warn", "error")
	v.oneOf("log.format", c.Log.Format, "json", "text")
	v.share("log.sample", c.Log.Sample)
	if c.Tracing.Endpoint != "" {
		v.httpURL("tracing.endpoint", c.Tracing.Endpoint)
	}
	v.share("tracing.ratio", c.Tracing.Ratio)
	return errors.Join(v.problems...)
}

type validation struct{ problems []error }

func (v *validation) check(ok bool, key, format string, args ...any) {
	if !ok {
		v.problems = append(v.problems, fmt.Errorf(key+": "+format, args...))
	}
}

func (v *validation) address(key, addr string) {
	_, _, err := net.SplitHostPort(addr)
	v.check(err == nil, key, "%q is not host:port", addr)
}

func (v *validation) oneOf(key, value string, allowed ...string) {
	v.check(slices.Contains(allowed, value), key, "%q is none of %s", value, strings.Join(allowed, ", "))
}

func (v *validation) share(key string, value float64) {
	v.check(0 <= value && value <= 1, key, "%v is not from 0 to 1", value)
}

// httpURL never prints the value: it may hold a key or a password.
func (v *validation) httpURL(key, value string) {
	u, err := url.Parse(value)
	v.check(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "", key, "not an http:// or https:// URL")
}

func (v *validation) chain(c Chain) {
	v.check(len(c.Nodes) > 0, "chain.nodes", "at least one is needed")
	for _, n := range c.Nodes {
		v.httpURL("chain.nodes", n)
	}
	v.check(len(c.Comet) == len(c.Nodes), "chain.comet", "set one for each of the %d nodes, or none", len(c.Nodes))
	for _, n := range c.Comet {
		if n != "none" {
			v.httpURL("chain.comet", n)
		}
	}
	v.oneOf("chain.shape", c.Shape, "documented", "node")
	v.check(c.MaxPageLimit > 0, "chain.max_page_limit", "must be positive")
	v.check(c.InFlight > 0, "chain.in_flight", "must be positive")
	v.check(c.Scans > 0 && c.Scans <= c.InFlight, "chain.scans", "must be from 1 to chain.in_flight (%d)", c.InFlight)
	v.check(c.Hedge >= 0, "chain.hedge", "must not be negative")
}

// Validate checks a class that has every key set, as one laid over another
// with Over has. The errors name it by key.
func (c Class) Validate(key string) error {
	v := &validation{}
	v.class(key, c)
	return errors.Join(v.problems...)
}

func (v *validation) class(key string, c Class) {
	f, s, e := *c.FreshBlocks, *c.StaleBlocks, *c.ErrorBlocks
	v.check(0 <= f && f <= s && s <= e, key, "must be 0 <= fresh_blocks (%d) <= stale_blocks (%d) <= error_blocks (%d)", f, s, e)
	v.check(0 < *c.Fresh && *c.Fresh <= *c.Stale && *c.Stale <= *c.StaleIfError, key,
		"must be 0 < fresh (%v) <= stale (%v) <= stale_if_error (%v)", *c.Fresh, *c.Stale, *c.StaleIfError)
}

func (v *validation) redis(c Config) {
	switch c.Redis.URL {
	case "none", "embedded":
	default:
		u, err := url.Parse(c.Redis.URL)
		v.check(err == nil && slices.Contains([]string{"redis", "rediss", "unix"}, u.Scheme), "redis.url",
			"not a redis:// or rediss:// URL, nor embedded, nor none")
		blind := !slices.ContainsFunc(c.Chain.Comet, func(s string) bool { return s != "none" })
		v.check(c.Chain.ID != "" || !blind, "chain.id", "needed with a shared Redis when chain.comet is none: nothing else tells chains apart")
	}
}

func (v *validation) collections(c Collections) {
	scheme, rest, _ := strings.Cut(c.Store, ":")
	v.check(slices.Contains([]string{"sqlite", "postgres", "postgresql", "http", "https"}, scheme) && rest != "",
		"collections.store", "not sqlite:PATH, postgres://... or an https:// base")
	v.oneOf("collections.auth", c.Auth, "keys", "none", "closed")
	v.check(c.Auth != "keys" || len(c.Keys) > 0, "collections.keys",
		"none is set: add the line that tipcache key new NAME prints, or say collections.auth: none")
	if c.PublicURL != "" {
		v.httpURL("collections.public_url", c.PublicURL)
	}
	v.check(0 < c.Fresh && c.Fresh <= c.Stale && c.Stale <= c.OnError, "collections",
		"must be 0 < fresh (%v) <= stale (%v) <= stale_if_error (%v)", c.Fresh, c.Stale, c.OnError)
}

func (v *validation) metadata(m Metadata) {
	if m.Provider == "none" {
		return
	}
	scheme, rest, _ := strings.Cut(m.Provider, ":")
	v.check(scheme == "alchemy" || scheme == "blockscout", "metadata.provider", "not alchemy:URL, blockscout:URL or none")
	v.httpURL("metadata.provider", rest)
	v.check(m.Batch > 0 && m.Batch <= 100, "metadata.batch", "must be from 1 to 100")
}

func (v *validation) sizes(c Config) {
	v.check(c.Cache.Memory == Auto || c.Cache.Memory >= 1<<20, "cache.memory", "%v is less than 1MiB", c.Cache.Memory)
	v.check(c.Chain.MaxBody >= 1<<20, "chain.max_body", "%v is less than 1MiB", c.Chain.MaxBody)
	v.check(c.HTTP.MaxHeader >= 4<<10, "http.max_header", "%v is less than 4KiB", c.HTTP.MaxHeader)
	v.check(c.HTTP.MaxURL >= 1<<10, "http.max_url", "%d is less than 1024", c.HTTP.MaxURL)
	v.check(c.Cache.Waiters > 0, "cache.waiters", "must be positive")
}

// deadlines checks that each wait ends before the one around it.
func (v *validation) deadlines(c Config) {
	nested := []struct {
		key string
		d   time.Duration
	}{
		{"redis.timeout", c.Redis.Timeout},
		{"chain.timeout", c.Chain.Timeout},
		{"cache.flight", c.Cache.Flight},
		{"http.request", c.HTTP.Request},
		{"http.drain", c.HTTP.Drain},
	}
	for i := 1; i < len(nested); i++ {
		in, out := nested[i-1], nested[i]
		v.check(in.d < out.d, in.key, "%v must be shorter than %s (%v)", in.d, out.key, out.d)
	}
	positive := map[string]time.Duration{
		"redis.timeout": c.Redis.Timeout, "cache.lease": c.Cache.Lease, "cache.patience": c.Cache.Patience, "classes.pinned": c.Classes.Pinned,
		"classes.negative": c.Classes.Negative, "chain.queue": c.Chain.Queue, "chain.block_interval": c.Chain.BlockInterval,
		"chain.max_block_age": c.Chain.MaxBlockAge, "http.header": c.HTTP.Header, "http.idle": c.HTTP.Idle,
		"collections.timeout": c.Collections.Timeout, "metadata.budget": c.Metadata.Budget, "metadata.timeout": c.Metadata.Timeout,
	}
	for _, key := range sortedKeys(positive) {
		v.check(positive[key] > 0, key, "%v is not a positive time", positive[key])
	}
	v.check(c.HTTP.DrainDelay >= 0, "http.drain_delay", "must not be negative")
	v.check(c.Chain.MinHeightWait < c.HTTP.Request, "chain.min_height_wait", "%v must be shorter than http.request (%v)", c.Chain.MinHeightWait, c.HTTP.Request)
	v.check(c.Redis.Timeout < c.Cache.Lease && c.Cache.Lease < c.Cache.Flight, "cache.lease", "%v must be between redis.timeout (%v) and cache.flight (%v)", c.Cache.Lease, c.Redis.Timeout, c.Cache.Flight)
	v.check(c.Cache.Patience < c.Cache.Flight, "cache.patience", "%v must be shorter than cache.flight (%v)", c.Cache.Patience, c.Cache.Flight)
	v.check(c.Collections.Timeout < c.Cache.Flight, "collections.timeout", "%v must be shorter than cache.flight (%v)", c.Collections.Timeout, c.Cache.Flight)
}

func sortedKeys[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
