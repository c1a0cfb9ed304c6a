package parts

import (
	"errors"
	"fmt"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/cosmos"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/listener"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// classOf is the class of a route in the dialect that is configured, or in any dialect.
func classOf(cfg config.Config, name string) (class blocks.Class, ok bool) {
	if cfg.Chain.Dialect != string(node.Cosmos) {
		if class, ok = dialect.ClassOf(chain.Rows(), name); ok || cfg.Chain.Dialect == string(node.Story) {
			return class, ok
		}
	}
	return dialect.ClassOf(cosmos.Rows(ownRows(cfg)), name)
}

// routeNames are those of all rows that classOf looks at.
func routeNames(cfg config.Config) (names []string) {
	var rows []dialect.Row
	if cfg.Chain.Dialect != string(node.Cosmos) {
		rows = chain.Rows()
	}
	if cfg.Chain.Dialect != string(node.Story) {
		rows = append(rows, cosmos.Rows(ownRows(cfg))...)
	}
	for _, row := range rows {
		names = append(names, row.Name)
	}
	return names
}

// Classes are the freshness classes of the chain's queries.
func Classes(cfg config.Config) blocks.Classes {
	return blocks.Classes{
		Live:     policy(cfg.Classes.Live),
		Params:   policy(cfg.Classes.Params),
		Pinned:   cache.Policy{Immutable: true, Keep: cfg.Classes.Pinned},
		Negative: cfg.Classes.Negative,
	}
}

// OwnPolicies are the policies of the routes that have settings of their own.
func OwnPolicies(cfg config.Config) map[string]cache.Policy {
	own := map[string]cache.Policy{}
	for name := range cfg.Routes {
		own[name] = policy(routeClass(cfg, name))
	}
	return own
}

// routeClass lays the settings of a route over those of its class.
func routeClass(cfg config.Config, name string) config.Class {
	base := cfg.Classes.Live
	if class, _ := classOf(cfg, name); class == blocks.Params {
		base = cfg.Classes.Params
	}
	return cfg.Routes[name].Over(base)
}

// Validate checks what package config cannot: names against the route table, and the
// content of files.
func Validate(cfg config.Config) error {
	return errors.Join(validateRoutes(cfg), validateTLS(cfg.HTTP.TLS))
}

func validateTLS(c config.TLS) error {
	if c.Cert == "" || c.Key == "" {
		return nil
	}
	if _, err := listener.NewCertificate(c.Cert, c.Key, nil); err != nil {
		return config.Problem{Key: "http.tls.cert", Text: err.Error()}
	}
	return nil
}

// validateRoutes checks the names of routes, and the classes that result.
func validateRoutes(cfg config.Config) error {
	var problems []error
	for i, line := range cfg.Chain.Rows {
		if _, err := cosmos.ParseRow(line); err != nil {
			problems = append(problems, config.Problem{Key: fmt.Sprintf("chain.rows[%d]", i), Text: err.Error()})
		}
	}
	for name := range cfg.Routes {
		if _, ok := classOf(cfg, name); !ok {
			problems = append(problems, config.Problem{Key: "routes." + name, Text: "no such route" + web.DidYouMean(name, routeNames(cfg))})
			continue
		}
		problems = append(problems, routeClass(cfg, name).Validate("routes."+name))
	}
	return errors.Join(problems...)
}

func policy(c config.Class) cache.Policy {
	return cache.Policy{
		FreshBlocks:  *c.FreshBlocks,
		StaleBlocks:  *c.StaleBlocks,
		ErrorBlocks:  *c.ErrorBlocks,
		Fresh:        *c.Fresh,
		Stale:        *c.Stale,
		StaleIfError: *c.StaleIfError,
		Keep:         *c.StaleIfError + time.Minute,
	}
}
