package faults

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// The links that can fail.
const (
	clientLink   = "client"
	nodeLink     = "node"
	redisLink    = "redis"
	postgresLink = "postgres"
	parentLink   = "parent" // of the children to their parent
)

// A link is a network path to servers, with a TCP proxy in front of each.
type link []*toxiproxy.Proxy

// weathers are the ways in which a link can fail, as toxics of toxiproxy. A half-open connection delivers nothing.
var weathers = map[string][]string{
	"latency":    {`{"type":"latency","stream":"downstream","attributes":{"latency":300,"jitter":200}}`},
	"resets":     {`{"type":"reset_peer","stream":"downstream","attributes":{"timeout":20}}`},
	"half-open":  {`{"type":"timeout","stream":"downstream","attributes":{"timeout":0}}`, `{"type":"timeout","stream":"upstream","attributes":{"timeout":0}}`},
	"slow close": {`{"type":"slow_close","stream":"downstream","attributes":{"delay":3000}}`, `{"type":"slow_close","stream":"upstream","attributes":{"delay":3000}}`},
}

// through puts a link in front of a server, and returns its address.
func (b *bed) through(name, addr string) string {
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := toxiproxy.NewProxy(server, name, "127.0.0.1:0", addr)
	rig.Check(p.Start())
	b.OnStop(p.Stop)
	b.links[name] = append(b.links[name], p)
	return p.Listen
}

// behind returns s with the nodes behind links, REST and CometBFT of the first one first.
func (b *bed) behind(link string, s rig.Serving) rig.Serving {
	all := append([]string{s.Node, s.Comet}, s.Flags...)
	for i, server := range all {
		if strings.HasPrefix(server, "http://") {
			all[i] = "http://" + b.through(link, rig.Host(server))
		}
	}
	s.Node, s.Comet, s.Flags = all[0], all[1], all[2:]
	return s
}

// stoppable returns the URL of a node's server, through a relay if the setup can stop nodes.
func (b *bed) stoppable(ctx context.Context, server string) string {
	if !b.setup.stops {
		return server
	}
	p, addr := b.Relay(ctx, rig.Host(server))
	b.relays = append(b.relays, p)
	return "http://" + addr
}

// reach returns the URL of a server, through a link if the setup has links.
func (b *bed) reach(link, server string) string {
	if !b.setup.links {
		return server
	}
	through := rig.Must(url.Parse(server))
	through.Host = b.through(link, through.Host)
	return through.String()
}

func (l link) fail(toxics ...string) error {
	for _, p := range l {
		for _, toxic := range toxics {
			if _, err := p.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
				return errors.Join(fmt.Errorf("toxic %s", toxic), err)
			}
		}
	}
	return nil
}

func (l link) mend() {
	for _, p := range l {
		p.Toxics.ResetToxics(context.Background())
	}
}
