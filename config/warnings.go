package config

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/proxy/web"
)

// publicNetworks are the names in index.network of the public networks, by chain.id.
var publicNetworks = map[string]string{"story-1": "story", "devnet-1": "aeneid"}

// servingWarnings returns a warning if nothing is served, if collections are prepared but not served, if gRPC is served without a
// node's gRPC, or if the collections belong to another chain than the nodes.
func (c Config) servingWarnings() (warnings []error) {
	if c.ServesNothing() {
		warnings = append(warnings, Problem{Key: "chain.nodes", Text: "no node is configured, and collections are not served"})
	}
	const closed = "collections are not served: set collections.keys, or collections.auth"
	if c.Collections.Auth == "closed" && c.Index.Enabled {
		warnings = append(warnings, Problem{Key: "index.enabled", Text: "the store is filled, but " + closed})
	}
	if c.Collections.Auth == "closed" && c.Metadata.Provider != "none" {
		warnings = append(warnings, Problem{Key: "metadata.provider", Text: "it is not asked, because " + closed})
	}
	if c.GRPC.Listen != "" && !c.ReadsGRPC() {
		warnings = append(warnings, Problem{Key: "grpc.listen", Text: "without chain.grpc, only reads of state and methods of the RPC are served"})
	}
	network := strings.Join(c.Index.Network, " ")
	if want := publicNetworks[c.Chain.ID]; want != "" && want != network && slices.Contains(slices.Collect(maps.Values(publicNetworks)), network) && c.NeedsStore() {
		warnings = append(warnings, Problem{Key: "index.network", Text: fmt.Sprintf("%s is the network of another chain than chain.id (%s), whose network is %s", network, c.Chain.ID, want)})
	}
	return warnings
}

// publicSpace are the public addresses of a family of addresses: the networks of whole without those of except.
type publicSpace struct {
	family string
	whole  netip.Prefix
	except []netip.Prefix // disjoint, and within whole
}

var publicSpaces = []publicSpace{
	{"IPv4", netip.MustParsePrefix("0.0.0.0/0"), prefixes("0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16", "224.0.0.0/3")},
	{"IPv6", netip.MustParsePrefix("2000::/3"), nil},
}

func prefixes(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}

// addresses returns the number of public addresses in a network.
func (s publicSpace) addresses(network netip.Prefix) (count float64) {
	shared := func(other netip.Prefix) float64 { // one of two networks that overlap contains the other
		if !network.Overlaps(other) {
			return 0
		}
		return math.Ldexp(1, network.Addr().BitLen()-max(network.Bits(), other.Bits()))
	}
	count = shared(s.whole)
	for _, other := range s.except {
		count -= shared(other)
	}
	return count
}

// share returns the share of the public addresses that networks cover together.
func (s publicSpace) share(networks []netip.Prefix) float64 {
	covered := 0.0
	for i, network := range networks {
		if !isWithin(networks, i) {
			covered += s.addresses(network)
		}
	}
	return covered / s.addresses(s.whole)
}

// isWithin reports whether network i is within another one, or equal to an earlier one.
func isWithin(networks []netip.Prefix, i int) bool {
	for j, other := range networks {
		if other.Overlaps(networks[i]) && (other.Bits() < networks[i].Bits() || other.Bits() == networks[i].Bits() && j < i) {
			return true
		}
	}
	return false
}

// proxyWarnings returns a warning for each family of addresses most of whose public addresses are those of trusted proxies.
func (c Config) proxyWarnings() (warnings []error) {
	for _, space := range publicSpaces {
		if share := space.share(c.Limits().TrustedProxies); share > 0.5 {
			warnings = append(warnings, Problem{Key: "http.trusted_proxies", Text: fmt.Sprintf(
				"the networks cover %.0f %% of the public %s addresses, and a client with such an address can choose the address that rates and logs use: list only the networks of your proxies", math.Floor(100*share), space.family)})
		}
	}
	return warnings
}

// ruleWarnings returns the access rules of a valid configuration that probably have no effect, or deny some clients. Nodes may
// have paths and methods that tipcache does not know, so a rule for an unknown name is not an error.
func (c Config) ruleWarnings() (warnings []error) {
	known := c.knownOperations()
	each("access", c.Access, func(key, line string) {
		rule, _ := ParseRule(line)
		warn := func(text string) { warnings = append(warnings, Problem{Key: key, Text: text}) }
		for _, pattern := range rule.Patterns {
			if hint, unknown := known.lacks(pattern); unknown {
				warn(fmt.Sprintf("%s matches no path or method that tipcache knows%s", pattern, hint))
			}
		}
		if problem, affordable := c.unaffordable(rule); problem != "" && affordable {
			warn(problem)
		}
	})
	return warnings
}

// unaffordable returns why some clients can never make a request to which a rule applies, or "". affordable reports whether
// others can.
func (c Config) unaffordable(rule limits.Rule) (problem string, affordable bool) {
	all := c.Limits()
	fits := func(r limits.Rate) bool { return r == (limits.Rate{}) || r.Burst >= rule.Cost }
	check := func(name string, r limits.Rate) {
		if !fits(r) && problem == "" {
			problem = fmt.Sprintf("cost %d exceeds the burst of %s (%d)", rule.Cost, name, r.Burst)
		}
	}
	check("http.rate", all.Address)
	check("collections.rate", all.Key)
	affordable = c.Chain.Auth != "keys" && fits(all.Address)
	for _, key := range c.ClientKeys() {
		check("the rate of key "+key.Name, key.Rate)
		if key.Rate == (limits.Rate{}) {
			affordable = affordable || fits(all.Address) && fits(all.Key)
		} else {
			affordable = affordable || fits(key.Rate)
		}
	}
	return problem, affordable
}

// operations are the names that access rules may have.
type operations struct{ paths, rpc, grpc, mounts []string }

func (c Config) knownOperations() (known operations) {
	for _, row := range slices.Concat(fixed, c.rows()) {
		if row.Pattern != "" && !strings.HasPrefix(row.Pattern, "/{") { // such a row takes all other paths
			known.paths = append(known.paths, row.Pattern)
		}
	}
	for _, row := range cosmos.Rows(c.ownRows()) { // gRPC is served in both dialects
		known.grpc = append(known.grpc, strings.TrimPrefix(row.Method, "/"))
	}
	known.rpc = slices.Concat(rpc.Names(), c.RPC.Methods)
	for _, m := range c.HTTP.Mounts {
		known.mounts = append(known.mounts, strings.TrimSuffix(m.Path, "/"))
	}
	return known
}

// below returns the rest of an unknown path, or of one with a star, below the base path of a mount, "" for none.
func (o operations) below(pattern string) string {
	beginning, hasStar := strings.CutSuffix(pattern, "*")
	begins := func(path string) bool { return strings.HasPrefix(path, beginning) }
	if o.hasPath(pattern) || hasStar && slices.ContainsFunc(o.paths, begins) {
		return ""
	}
	for _, mount := range o.mounts {
		if path, ok := strings.CutPrefix(pattern, mount+"/"); ok && mount != "" {
			return "/" + path
		}
	}
	return ""
}

// lacks reports whether a pattern of an access rule matches no known operation, and which one is probably meant. It knows only
// the gRPC methods that also have a path, so it reports other gRPC methods only if they are near one of these.
func (o operations) lacks(pattern string) (hint string, lacks bool) {
	if below := o.below(pattern); below != "" {
		return "; access rules take paths without the base path: " + below, true
	}
	name, isPath := strings.CutPrefix(pattern, "/")
	switch {
	case strings.Contains(pattern, "*"):
		return o.lacksAll(pattern)
	case isPath && o.hasPath(pattern):
		return "", false
	case isPath:
		return withStars(web.PathDidYouMean(pattern, o.paths)), true
	case o.hasPath("/" + name):
		return "; did you mean /" + name + "?", true
	case strings.Contains(name, "."):
		hint = web.DidYouMean(name, o.grpc)
		return hint, hint != "" && !slices.Contains(o.grpc, name)
	}
	return web.DidYouMean(name, o.rpc), !slices.Contains(o.rpc, name)
}

// lacksAll is lacks for a pattern with a star.
func (o operations) lacksAll(pattern string) (hint string, lacks bool) {
	meets := func(name string) bool { return dialect.Meets(name, pattern) }
	switch {
	case limits.IsBuiltIn(pattern) || slices.ContainsFunc(slices.Concat(o.paths, o.rpc, o.grpc), meets):
		return "", false
	case strings.HasPrefix(pattern, "/"):
		return withStars(cmp.Or(web.PathDidYouMean(pattern, o.paths), web.DidYouMean(pattern, o.beginningAs(pattern)))), true
	case strings.Contains(pattern, "."):
		service, _, _ := strings.Cut(pattern, "/")
		hint = web.DidYouMean(service, o.services())
		return hint, hint != "" && service != pattern
	}
	return web.DidYouMean(pattern, o.rpc), true
}

// beginningAs returns the beginnings of the known paths, with as many segments as a pattern has before its first star, and with the
// rest of the pattern.
func (o operations) beginningAs(pattern string) (all []string) {
	beginning, _, _ := strings.Cut(pattern, "*")
	beginning = strings.TrimSuffix(beginning, "/")
	segments := strings.Count(beginning, "/") + 1
	for _, path := range o.paths {
		if parts := strings.Split(path, "/"); len(parts) > segments {
			all = append(all, strings.Join(parts[:segments], "/")+pattern[len(beginning):])
		}
	}
	return all
}

func (o operations) services() (all []string) {
	for _, method := range o.grpc {
		service, _, _ := strings.Cut(method, "/")
		all = append(all, service)
	}
	return all
}

func (o operations) hasPath(path string) bool {
	return path != "" && slices.ContainsFunc(o.paths, func(pattern string) bool { return dialect.Covers(pattern, path) })
}
