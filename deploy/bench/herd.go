package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

func herdPart() part {
	return part{
		name:  "herd",
		about: "500 clients at once on a cold key: what the node is asked, how long they wait",
		needs: []tool{nginxTool, varnishTool},
		run:   runHerd,
	}
}

const (
	herdClients = 500
	herdKeys    = 20 // of each kind
	nodeLatency = 50 * time.Millisecond
)

// A herdServer is one of those compared, with a node of its own.
type herdServer struct {
	name  string
	node  *counting
	crowd *crowd
}

// herdKind is what a cold key's answer is.
type herdKind struct {
	name   string
	status func(int) bool // what clients may get
	key    func(i int) string
}

// The keys differ in a limit that changes nothing else. The last kind is of
// keys that failingNode fails.
func herdKinds() []herdKind {
	good := func(status int) bool { return status == 200 }
	bad := func(status int) bool { return status >= 400 }
	return []herdKind{
		{"an answer", good, func(i int) string { return listKey(200 + i) }},
		{"no such validator", bad, func(i int) string { return fmt.Sprintf("/staking/validators/0x%040x", 0xbad00+i) }},
		{"an error", bad, func(i int) string { return listKey(failingFrom + i) }},
	}
}

func listKey(limit int) string { return "/staking/validators?pagination.limit=" + strconv.Itoa(limit) }

// failingFrom is the limit from which on the node fails.
const failingFrom = 1000

func failingNode(uri string) bool {
	_, limit, _ := strings.Cut(uri, "pagination.limit=")
	limit, _, _ = strings.Cut(limit, "&")
	n, err := strconv.Atoi(limit)
	return err == nil && n >= failingFrom
}

func runHerd(ctx context.Context, b *bench) error {
	servers, err := b.herdServers(ctx)
	for _, s := range servers {
		defer s.node.server.Close()
		defer s.crowd.close()
	}
	if err != nil {
		return err
	}
	keys := herdKeys
	if b.short {
		keys = 2
	}
	var rows [][]string
	for _, kind := range herdKinds() {
		seen := make([]herdSeen, len(servers))
		for i := range keys {
			for _, s := range rotated(len(servers), i) {
				if err := seen[s].add(ctx, servers[s], kind, i); err != nil {
					return err
				}
			}
		}
		fmt.Fprintf(os.Stderr, "herd: %s: done\n", kind.name)
		for i, s := range servers {
			rows = append(rows, seen[i].row(kind.name, s.name))
		}
	}
	b.out.table(fmt.Sprintf("herd: %d clients at once on a cold key, %d keys of each kind", herdClients, keys),
		[]string{"the node has", "server", "node requests per key", "most", "p50", "p99", "max", "other statuses"}, rows)
	b.out.note("p50, p99 and max are what clients wait, in round trips of the node (%v). Other statuses are answers that the kind has no reason for, and connections that were lost.", nodeLatency)
	b.out.note("Varnish is told one lifetime for whatever the node says, so it keeps errors like answers.")
	return nil
}

// herdServers start each before a node of its own, which all stand before one chain.
func (b *bench) herdServers(ctx context.Context) (all []herdServer, err error) {
	d, err := b.devnet(ctx, still)
	if err != nil {
		return nil, err
	}
	for _, name := range []string{"tipcache", "Varnish", "nginx"} {
		node, err := newCounting(d.rest, nodeLatency, failingNode)
		if err != nil {
			return all, err
		}
		s := herdServer{name: name, node: node, crowd: newCrowd("", herdClients)}
		all = append(all, s)
		url, err := b.before(ctx, name, node.server.URL, d)
		if err != nil {
			return all, err
		}
		s.crowd.addr = host(url)
	}
	return all, nil
}

// before starts a server before a node of d's chain and returns its URL. The
// general caches do not know blocks: they keep answers for a minute.
func (b *bench) before(ctx context.Context, name, node string, d *devnetProc) (string, error) {
	switch name {
	case "Varnish":
		v, err := b.varnish(ctx, node, time.Minute, 0)
		if err != nil {
			return "", err
		}
		return v.url, nil
	case "nginx":
		n, err := b.nginx(ctx, node, time.Minute)
		if err != nil {
			return "", err
		}
		return n.plain, nil
	}
	slow := *d
	slow.rest = node
	t, err := b.tipcache(ctx, &slow)
	if err != nil {
		return "", err
	}
	return t.url, nil
}

// herdSeen is what came of one kind of key at one server.
type herdSeen struct {
	requests []float64 // of the node, by key
	waits    []float64 // of the clients, in round trips
	other    int
}

func (h *herdSeen) add(ctx context.Context, s herdServer, kind herdKind, i int) error {
	if err := s.crowd.gather(ctx, warmPath); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	key := kind.key(i)
	for _, a := range s.crowd.rush(key) {
		if a.err != nil || !kind.status(a.status) {
			h.other++
			continue
		}
		h.waits = append(h.waits, float64(a.took)/float64(nodeLatency))
	}
	h.requests = append(h.requests, float64(s.node.count(key)))
	return ctx.Err()
}

func (h *herdSeen) row(kind, server string) []string {
	return []string{
		kind, server, decimal(mean(h.requests)), decimal(quantile(h.requests, 1)),
		decimal(median(h.waits)), decimal(quantile(h.waits, 0.99)), decimal(quantile(h.waits, 1)), strconv.Itoa(h.other),
	}
}
