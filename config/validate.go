package config

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/grpc"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/metadata"
	"github.com/tipcache/tipcache/upstream/node"
)

// Validate joins all problems of the configuration.
func (c Config) Validate() error {
	v := &validation{}
	v.tags(c)
	v.listeners(c)
	v.chain(c.Chain)
	v.policy("classes.live", c.Classes.Live)
	v.policy("classes.params", c.Classes.Params)
	v.redis(c)
	v.collections(c.Collections)
	v.routes(c)
	v.mounts(c)
	v.access(c)
	v.metadata(c.Metadata)
	_, err := indexer.ParseNetwork(c.Index.Network...)
	v.check(err == nil, "index.network", "%v", err)
	if c.Index.Enabled {
		v.check(!strings.HasPrefix(c.Collections.Store, "http"), "collections.store", "is another server, which fills its own store: the indexer needs a database")
		v.check(len(c.Index.EVM) > 0, "index.evm", "at least one is needed")
		v.addresses("index.evm", c.Index.EVM, v.httpURL)
	}
	_, err = parseShare(c.Log.Access)
	v.check(err == nil, "log.access", "%v", err)
	if c.Tracing.Endpoint != "" {
		v.httpURL("tracing.endpoint", c.Tracing.Endpoint)
	}
	v.check(c.Cache.Memory == Auto || c.Cache.Memory >= 1<<20, "cache.memory", "%v is less than 1MiB", c.Cache.Memory)
	return errors.Join(v.problems...)
}

// listeners checks that each listener has its own address, and something to serve.
func (v *validation) listeners(c Config) {
	type listener struct{ key, address string }
	all := []listener{{"listen", c.Listen}}
	if isNamed(c.Admin) {
		all = append(all, listener{"admin", c.Admin})
	}
	if c.RPC.Listen != "" {
		all = append(all, listener{"rpc.listen", c.RPC.Listen})
		v.check(slices.ContainsFunc(c.Chain.Comet, isNamed), "rpc.listen", "chain.comet has no address, so there is no RPC to serve")
	}
	if c.GRPC.Listen != "" {
		all = append(all, listener{"grpc.listen", c.GRPC.Listen})
		v.check(c.ReadsGRPC() || slices.ContainsFunc(c.Chain.Comet, isNamed), "grpc.listen", "neither chain.grpc nor chain.comet has an address, so there is nothing to serve")
	}
	each("rpc.methods", c.RPC.Methods, func(key, name string) {
		v.check(rpc.IsName.MatchString(name), key, "%q is not the name of an RPC method", name)
	})
	each("grpc.web_metadata", c.GRPC.WebMetadata, func(key, name string) {
		err := grpc.CheckWebMetadata(name)
		v.check(err == nil, key, "%v", err)
	})
	for i, l := range all {
		v.address(l.key, l.address)
		for _, other := range all[:i] {
			v.check(!overlap(l.address, other.address), l.key, "%s is also the address of %s (%s): each listener needs its own port", l.address, other.key, other.address)
		}
	}
}

// isNamed reports whether an address is set: none means no address.
func isNamed(address string) bool { return address != "none" }

// ReadsGRPC reports whether state is read by the gRPC of a node.
func (c Config) ReadsGRPC() bool { return slices.ContainsFunc(c.Chain.GRPC, isNamed) }

type validation struct{ problems []error }

func (v *validation) check(ok bool, key, format string, args ...any) {
	if !ok {
		v.problems = append(v.problems, Problem{Key: key, Text: fmt.Sprintf(format, args...)})
	}
}

// each calls check for every item of a list with its key.
func each(key string, list []string, check func(key, item string)) {
	for i, item := range list {
		check(fmt.Sprintf("%s[%d]", key, i), item)
	}
}

// severalAddresses matches addresses with a comma between them. A user, a password, a path or a header may have a comma, too.
var severalAddresses = regexp.MustCompile(`^(\w+://)?[^\s/?#@,]*,[^\s/?#@]*([\s/?#]|$)|^\S*,https?://`)

// addresses calls check for every address of a list, as each does. Only variables separate addresses by commas.
func (v *validation) addresses(key string, list []string, check func(key, item string)) {
	each(key, list, func(key, item string) {
		if severalAddresses.MatchString(item) {
			v.check(false, key, "has a comma: repeat the flag, or write a list in the file, with one address each")
			return
		}
		check(key, item)
	})
}

func (v *validation) address(key, addr string) {
	_, port, err := net.SplitHostPort(addr)
	v.check(err == nil, key, "%q is not HOST:PORT", addr)
	v.check(isPort(port), key, "%q is not a port from 0 to 65535", port)
}

// isPort reports whether a text is a number that a port can have, or empty.
func isPort(text string) bool {
	_, err := strconv.ParseUint(cmp.Or(text, "0"), 10, 16)
	return err == nil
}

// overlap reports whether two listeners cannot have these addresses. Port 0 means any free port.
func overlap(a, b string) bool {
	hostA, portA, _ := net.SplitHostPort(a)
	hostB, portB, _ := net.SplitHostPort(b)
	anywhere := func(host string) bool { ip := net.ParseIP(host); return host == "" || ip != nil && ip.IsUnspecified() }
	return portA == portB && portA != "0" && portA != "" && (hostA == hostB || anywhere(hostA) || anywhere(hostB))
}

// rules are the values of the tag must, for numbers, sizes and times in nanoseconds.
var rules = map[string]struct {
	ok      func(n float64) bool
	problem string // of other values
}{
	"positive":     {func(n float64) bool { return n > 0 }, "not positive"},
	"not negative": {func(n float64) bool { return n >= 0 }, "negative"},
	"from 0 to 1":  {func(n float64) bool { return 0 <= n && n <= 1 }, "not from 0 to 1"},
}

func (v *validation) tags(c Config) {
	eachKey("", reflect.ValueOf(c), func(path string, f reflect.StructField, value reflect.Value) {
		if strings.HasPrefix(path, "index.") && !c.Index.Enabled {
			return // not used
		}
		if must, ok := f.Tag.Lookup("must"); ok {
			rule := rules[must]
			v.check(rule.ok(value.Convert(reflect.TypeFor[float64]()).Float()), path, "%v is %s", value.Interface(), rule.problem)
		}
		if allowed, ok := f.Tag.Lookup("oneof"); ok {
			v.check(slices.Contains(strings.Split(allowed, ", "), value.String()), path, "%q is none of %s", value.String(), strings.TrimPrefix(allowed, ", "))
		}
	})
}

// credentials checks that the user and the password in a URL end where they seem to, and reports whether they do.
func (v *validation) credentials(key, value string) (ok bool) {
	err := upstream.CheckCredentials(value)
	v.check(err == nil, key, "%v", err)
	return err == nil
}

// httpURL checks a URL. The problem shows only its scheme and host: the rest may hold a secret.
func (v *validation) httpURL(key, value string) {
	if !v.credentials(key, value) {
		return
	}
	u, err := url.Parse(value)
	v.check(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "", key, "%s is not an http:// or https:// URL", shown(value))
	v.check(err != nil || isPort(u.Port()), key, "the port is not from 0 to 65535")
}

// baseURL checks a URL to which paths are appended.
func (v *validation) baseURL(key, value string) {
	v.httpURL(key, value)
	v.check(!strings.ContainsAny(value, "?#"), key, "must have no query and no fragment")
}

// shown returns the scheme and host of a URL for a problem. A comma splits a password in a list, so that its
// first half looks like a port.
func shown(value string) string {
	bare := !strings.Contains(value, "://") // a scheme is missing
	if bare {
		value = "//" + value
	}
	u, err := url.Parse(value)
	if err != nil || strings.ContainsAny(value, "@?") || bare && u.Port() == "" {
		return "the value"
	}
	return strconv.Quote(strings.TrimPrefix(u.Scheme+"://"+u.Host, "://"))
}

func (v *validation) chain(c Chain) {
	seen := map[string]bool{}
	v.addresses("chain.nodes", c.Nodes, func(key, line string) {
		e, err := parseNode(line)
		if v.check(err == nil, key, "%v", err); err == nil {
			v.baseURL(key, e.REST)
			account := fmt.Sprint(strings.TrimRight(e.REST, "/"), e.Headers)
			v.check(!seen[account], key, "the node is listed twice")
			seen[account] = true
		}
	})
	if len(c.Comet) == 0 && len(c.Nodes) > 0 {
		v.check(false, "chain.comet", "not set: name the CometBFT RPC address of each of chain.nodes, as in http://127.0.0.1:26657, or none to take the height from the REST API")
	} else {
		v.check(len(c.Comet) == len(c.Nodes), "chain.comet", "%d addresses for %d nodes: list one for each node, or none for a node without one", len(c.Comet), len(c.Nodes))
	}
	v.addresses("chain.comet", c.Comet, func(key, address string) {
		if isNamed(address) {
			v.baseURL(key, address)
		}
	})
	v.check(len(c.GRPC) == 0 || len(c.GRPC) == len(c.Nodes), "chain.grpc", "%d addresses for %d nodes: list one for each node, or none for a node without one", len(c.GRPC), len(c.Nodes))
	v.addresses("chain.grpc", c.GRPC, func(key, address string) {
		if u, err := node.ParseTarget(address); isNamed(address) {
			v.check(err == nil, key, "%v", err)
			v.check(err != nil || isPort(u.Port()), key, "the port is not from 0 to 65535")
		}
	})
	v.check(0 < c.MaxTxBytes && c.MaxTxBytes <= conn.LargestBody, "chain.max_tx_bytes", "%v; expected 1 to %v", c.MaxTxBytes, Bytes(conn.LargestBody))
	if rate, err := ParseRate(c.PostRate); err != nil || rate.Requests == 0 {
		v.check(false, "chain.post_rate", "%q is not a rate such as 50/s burst 100", c.PostRate)
	}
}

func (v *validation) policy(key string, p cache.Policy) {
	v.check(0 <= p.FreshBlocks && p.FreshBlocks <= p.StaleBlocks && p.StaleBlocks <= p.ErrorBlocks, key,
		"must be 0 <= fresh_blocks (%d) <= stale_blocks (%d) <= error_blocks (%d)", p.FreshBlocks, p.StaleBlocks, p.ErrorBlocks)
	v.check(0 < p.Fresh && p.Fresh <= p.Stale && p.Stale <= p.StaleIfError, key,
		"must be 0 < fresh (%v) <= stale (%v) <= stale_if_error (%v)", p.Fresh, p.Stale, p.StaleIfError)
}

func (v *validation) redis(c Config) {
	v.check(c.Redis.SealKey == "" || len(c.Redis.SealKey) >= minSecret, "redis.seal_key", "expected at least %d characters", minSecret)
	v.check(c.Redis.Timeout < c.Chain.Timeout || c.Chain.Timeout <= 0, "redis.timeout", "%v must be shorter than chain.timeout (%v)", c.Redis.Timeout, c.Chain.Timeout)
	lease := redis.Options{}.WithDefaults().Lease
	v.check(c.Redis.Timeout < lease, "redis.timeout", "%v must be shorter than the lease of a read (%v)", c.Redis.Timeout, lease)
	if c.Redis.URL == "none" {
		return
	}
	if !v.credentials("redis.url", c.Redis.URL) {
		return
	}
	scheme, _, _ := strings.Cut(c.Redis.URL, "://")
	u, err := url.Parse(c.Redis.URL)
	v.check(err == nil && slices.Contains([]string{"redis", "rediss", "unix"}, strings.ToLower(scheme)), "redis.url", "expected a redis://, rediss:// or unix:// URL, or none")
	if err == nil {
		v.check(isPort(u.Port()), "redis.url", "the port is not from 0 to 65535")
		v.redisParameters(u.Query())
	}
	noHeights := !slices.ContainsFunc(c.Chain.Comet, isNamed)
	v.check(c.Chain.ID != "" || !noHeights, "chain.id", "required with redis.url if no node has a CometBFT address: Redis needs the chain id to separate chains")
}

// redisParameters checks the parameters of redis.url. Their values may be secret.
func (v *validation) redisParameters(values url.Values) {
	for name := range values {
		v.check(slices.Contains([]string{"cluster", "master_name", "sentinel_username", "sentinel_password", "db"}, name), "redis.url", "unknown parameter %q; expected cluster, master_name, sentinel_username, sentinel_password or db", name)
	}
	if values.Has("cluster") {
		_, err := strconv.ParseBool(values.Get("cluster"))
		v.check(err == nil, "redis.url", "expected true or false for the parameter cluster")
	}
}

func (v *validation) collections(c Collections) {
	scheme, rest, _ := strings.Cut(c.Store, ":")
	v.check(slices.Contains([]string{"sqlite", "postgres", "postgresql", "http", "https"}, scheme) && rest != "" && (scheme == "sqlite" || strings.HasPrefix(rest, "//")),
		"collections.store", "expected sqlite:PATH, postgres://... or https://...")
	if scheme != "sqlite" && v.credentials("collections.store", c.Store) {
		_, err := url.Parse(c.Store)
		v.check(err == nil, "collections.store", "not a valid URL: a character such as %% in a password is written as %%25")
	}
	v.check(c.Auth != "keys" || len(c.Keys) > 0, "collections.keys",
		"not set: add the line that tipcache key new NAME prints, or set collections.auth: none")
	if c.PublicURL != "" {
		v.httpURL("collections.public_url", c.PublicURL)
	}
}

func (v *validation) metadata(m metadata.Settings) {
	if m.Provider == "none" {
		return
	}
	scheme, rest, _ := strings.Cut(m.Provider, ":")
	if scheme != "alchemy" && scheme != "blockscout" {
		v.check(false, "metadata.provider", "expected alchemy:URL, blockscout:URL or none")
		return
	}
	v.httpURL("metadata.provider", rest)
}
