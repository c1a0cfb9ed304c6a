package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/tipcache/tipcache/upstream/devnet"
)

// startAll starts the chain, which stands still, and all servers before it.
func (p *peersRun) startAll(ctx context.Context) error {
	dump := filepath.Join(p.dir, "collections.jsonl")
	d, err := p.devnet(ctx, still, "--write-collections", dump)
	if err != nil {
		return err
	}
	key, flags, err := p.collectionsOf(ctx, dump)
	if err != nil {
		return err
	}
	if p.tipcache, err = p.bench.tipcache(ctx, d, flags...); err != nil {
		return err
	}
	if p.cases, err = p.chooseCases(peerCases(key)); err != nil {
		return err
	}
	nginx, err := p.nginx(ctx, d.rest, validity)
	if err != nil {
		return err
	}
	varnish, err := p.varnish(ctx, d.rest, validity, 0)
	if err != nil {
		return err
	}
	p.servers = []server{
		{"tipcache", p.tipcache.process, func(c peerCase) string { return p.tipcache.url + c.q.path }},
		{"nginx", nginx.process, chainOnly(func(c peerCase) string { return nginx.port(c) + c.q.path })},
		{"Varnish", varnish.process, chainOnly(func(c peerCase) string { return varnish.url + c.q.path })},
	}
	return p.startBare(ctx)
}

// chainOnly leaves out what the general caches cannot do before this node.
func chainOnly(target func(peerCase) string) func(peerCase) string {
	return func(c peerCase) string {
		if c.only {
			return ""
		}
		return target(c)
	}
}

// port is the one that compresses for clients who want that.
func (n *nginxProc) port(c peerCase) string {
	if len(c.headers) > 0 {
		return n.gzip
	}
	return n.plain
}

// startBare starts servers that have nothing to do but send tipcache's bytes.
func (p *peersRun) startBare(ctx context.Context) error {
	var answers []bareAnswer
	for _, c := range p.cases {
		if slices.ContainsFunc(answers, func(a bareAnswer) bool { return a.Path == c.barePath }) {
			continue // a case of the same question came before
		}
		a, err := record(ctx, p.tipcache.url, c.barePath, c.q)
		if err != nil {
			return err
		}
		p.describe(c, a)
		answers = append(answers, a)
	}
	for i, c := range p.cases {
		if c.name == "small, 304" {
			tag := answers[slices.IndexFunc(answers, func(a bareAnswer) bool { return a.Path == c.barePath })].ETag
			p.cases[i].headers = []string{"If-None-Match: " + tag}
		}
	}
	for _, kind := range []string{bareNet, bareGin} {
		s, err := p.bare(ctx, kind, answers)
		if err != nil {
			return err
		}
		p.servers = append(p.servers, server{"bare " + kind, s.process, func(c peerCase) string { return s.url + c.barePath }})
	}
	return nil
}

// The kinds of bare servers.
const (
	bareNet = "net/http"
	bareGin = "gin"
)

func (p *peersRun) describe(c peerCase, a bareAnswer) {
	sizes := fmt.Sprintf("%d bytes", len(a.Body[""].Body))
	for _, coding := range []string{"gzip", "br"} {
		if b, ok := a.Body[coding]; ok {
			sizes += fmt.Sprintf(", %s %d", coding, len(b.Body))
		}
	}
	p.out.note("%s%s: %s", c.q.path, c.q.body, sizes)
}

var keyLines = regexp.MustCompile(`key\s+(\S+)\s+line\s+(\S+)`)

// collectionsOf imports a file into a store, makes a key, and returns it with the
// flags that let it in.
func (b *bench) collectionsOf(ctx context.Context, file string) (key string, flags []string, err error) {
	store := "sqlite:" + filepath.Join(b.dir, "collections.db")
	if _, err := b.output(ctx, "import", "--store", store, file); err != nil {
		return "", nil, err
	}
	text, err := b.output(ctx, "key", "new", "bench")
	if err != nil {
		return "", nil, err
	}
	m := keyLines.FindStringSubmatch(text)
	if m == nil {
		return "", nil, errors.New("tipcache key new does not print a key and a line")
	}
	return m[1], []string{"--store", store, "--collections-auth", "keys", "--api-key-sha256", m[2]}, nil
}

// peerCases are all there are.
func peerCases(key string) []peerCase {
	var address string
	for c := range devnet.Collections(1, 500) {
		address = c.CollectionAddress
		break
	}
	const path = "/api/v4/collections"
	small := question{path: "/staking/params"}
	large := question{path: "/staking/validators?pagination.limit=" + strconv.Itoa(70)}
	single := question{path: path, key: key, body: `{"where":{"collectionAddresses":["` + address + `"]},"pagination":{"limit":1}}`}
	page := question{path: path, key: key, body: `{"orderBy":"assetCount","orderDirection":"desc","pagination":{"limit":20,"offset":0}}`}
	return []peerCase{
		{name: "small", q: small, barePath: small.path},
		{name: "large", q: large, barePath: "/staking/validators"},
		{name: "large, gzip", q: large, barePath: "/staking/validators", headers: []string{"Accept-Encoding: gzip"}},
		{name: "large, br", q: large, barePath: "/staking/validators", headers: []string{"Accept-Encoding: br"}, only: true},
		{name: "small, 304", q: small, barePath: small.path, only: true},
		{name: "single, same bytes", q: single, barePath: path + "/single", only: true},
		{name: "single, parsed", q: single, barePath: path + "/single", only: true, vary: true},
		{name: "page, same bytes", q: page, barePath: path + "/page", only: true},
		{name: "page, parsed", q: page, barePath: path + "/page", only: true, vary: true},
	}
}

// chooseCases are those of -cases.
func (p *peersRun) chooseCases(all []peerCase) ([]peerCase, error) {
	if p.only == "" {
		return all, nil
	}
	wanted, err := regexp.Compile(p.only)
	if err != nil {
		return nil, fmt.Errorf("%w: -cases: %w", errUsage, err)
	}
	chosen := slices.DeleteFunc(all, func(c peerCase) bool { return !wanted.MatchString(c.name) })
	if len(chosen) == 0 {
		return nil, fmt.Errorf("%w: -cases %s: there is no such case", errUsage, p.only)
	}
	return chosen, nil
}
