package config

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	listing "github.com/tipcache/tipcache/proxy/collections"
	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// routes checks additional rows, the names of routes, and their resulting classes.
func (v *validation) routes(c Config) {
	var own []dialect.Row
	each("chain.rows", c.Chain.Rows, func(key, line string) {
		row, err := cosmos.ParseRow(line)
		if err == nil {
			err = c.clash(own, row)
			own = append(own, row)
		}
		v.check(err == nil, key, "%v", err)
	})
	isCached := map[string]bool{} // by name
	for _, row := range c.rows() {
		isCached[row.Name] = isCached[row.Name] || row.Class != blocks.Never
	}
	for name := range c.Routes {
		switch cached, known := isCached[name]; {
		case !known:
			v.check(false, "routes."+name, "no such route%s", web.DidYouMean(name, slices.Sorted(maps.Keys(isCached))))
		case !cached:
			v.check(false, "routes."+name, "the route has class never, so its responses are not cached")
		default:
			v.policy("routes."+name, c.policyOf(name))
		}
	}
}

// fixed are the paths that no row may have.
var fixed = []dialect.Row{
	{Name: "batch", Pattern: blocks.BatchPath}, {Name: "live", Pattern: stream.LivePath}, {Name: "collections", Pattern: listing.Path},
	{Name: "openapi", Pattern: "/openapi.json"}, {Name: "docs", Pattern: "/docs"}, {Name: "docs_live", Pattern: "/docs/live"},
}

// health are the paths of the health checks, which no access rule applies to.
var health = []dialect.Row{{Name: "healthz", Pattern: web.HealthPath}, {Name: "readyz", Pattern: web.ReadyPath}}

// clash returns why a row cannot follow the operator's other rows. A row may replace a built-in row of the same name.
func (c Config) clash(own []dialect.Row, row dialect.Row) error {
	builtIn := cosmos.Rows(nil)
	if c.Chain.Dialect == string(node.Story) {
		builtIn = story.Rows(nil)
	}
	for _, known := range builtIn {
		replaces := known.Pattern == row.Pattern && (row.Pattern != "" || known.Method == row.Method)
		if known.Name == row.Name && !replaces {
			return fmt.Errorf("%s is the name of the built-in row of %s", row.Name, cmp.Or(known.Pattern, known.Method))
		}
	}
	return dialect.Clash(slices.Concat(fixed, health, own), row)
}

// CheckRoutes checks chain.rows and routes. Call it again once the dialect is known, because both depend on it.
func (c Config) CheckRoutes() error {
	v := &validation{}
	v.routes(c)
	return errors.Join(v.problems...)
}

// ownRows returns the rows that the operator added.
func (c Config) ownRows() (rows []dialect.Row) {
	for _, line := range c.Chain.Rows {
		if row, err := cosmos.ParseRow(line); err == nil { // validated
			rows = append(rows, row)
		}
	}
	return rows
}

// OwnPolicies returns the policies of the routes that have settings.
func (c Config) OwnPolicies() map[string]cache.Policy {
	own := map[string]cache.Policy{}
	for name := range c.Routes {
		own[name] = c.policyOf(name)
	}
	return own
}

// rows returns the rows of the dialects that the nodes may have.
func (c Config) rows() (all []dialect.Row) {
	if c.Chain.Dialect != string(node.Cosmos) {
		paths, _ := cosmos.Split(c.ownRows())
		all = story.Rows(paths)
	}
	if c.Chain.Dialect != string(node.Story) {
		all = append(all, cosmos.Rows(c.ownRows())...)
	}
	return all
}

// policyOf returns the policy of a route. Settings that are not set come from its class.
func (c Config) policyOf(name string) cache.Policy {
	base := c.Classes.Live
	rows := c.rows()
	if i := slices.IndexFunc(rows, func(row dialect.Row) bool { return row.Name == name }); i >= 0 && rows[i].Class == blocks.Params {
		base = c.Classes.Params
	}
	return c.Routes[name].Over(base)
}

// Over returns base with the keys that r sets.
func (r Route) Over(base cache.Policy) cache.Policy {
	own, all := reflect.ValueOf(r), reflect.ValueOf(&base).Elem()
	for i := range own.NumField() {
		if f := own.Field(i); !f.IsNil() {
			all.FieldByName(own.Type().Field(i).Name).Set(f.Elem())
		}
	}
	return base
}
