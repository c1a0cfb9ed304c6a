package peers

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// startAll starts the chain, which stands still, and all servers before it.
func (p *peersRun) startAll(ctx context.Context) error {
	d, err := p.Chain(rig.Still)
	if err != nil {
		return err
	}
	key, flags, err := p.collections(ctx, d)
	if err != nil {
		return err
	}
	serving := rig.Before(d, flags...)
	tipcache, err := p.Replica(ctx, serving)
	if err != nil {
		return err
	}
	if p.cases, err = p.chooseCases(peerCases(key)); err != nil {
		return err
	}
	o := origin{node: d.NodeURL(), fresh: validity}
	nginx, err := startCacher(ctx, p.Rig, nginxName, o)
	if err != nil {
		return err
	}
	varnish, err := startCacher(ctx, p.Rig, varnishName, o)
	if err != nil {
		return err
	}
	serving.Env = []string{"TIPCACHE_HTTP_FAST_LANE=false"}
	slow, err := p.Replica(ctx, serving)
	if err != nil {
		return err
	}
	logged := &peer{Process: nginx.Process, name: "nginx with log", url: nginx.logged, accessLog: nginx.accessLog}
	p.servers = []*peer{ofReplica(tipcacheName, tipcache), ofReplica("tipcache, no lane", slow), nginx, logged, varnish}
	return p.startBare(ctx)
}

// target is where a peer serves a case, "" where it has nothing like it. The
// general caches cannot do everything before this node.
func (p *peer) target(c peerCase) string {
	switch {
	case p.bare:
		return p.url + c.barePath
	case p.replica != nil || !c.only && len(c.headers) == 0:
		return p.url + c.q.path
	case !c.only && p.gzip != "":
		return p.gzip + c.q.path
	}
	return ""
}

// startBare starts servers that have nothing to do but send tipcache's bytes.
func (p *peersRun) startBare(ctx context.Context) error {
	var answers []bareAnswer
	for _, c := range p.cases {
		if slices.ContainsFunc(answers, func(a bareAnswer) bool { return a.Path == c.barePath }) {
			continue // a case of the same question came before
		}
		a, err := record(ctx, p.servers[0].url, c.barePath, c.q)
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
	for _, b := range []struct {
		name, kind string
		answers    []bareAnswer
	}{
		{"bare " + BareNet, BareNet, answers}, {"bare " + BareGin, BareGin, answers},
		{"bare gin, 3 headers", BareGin, withFewHeaders(answers)}, {"bare " + BareFast, BareFast, answers},
	} {
		proc, url, err := StartBare(ctx, p.Rig, b.kind, b.answers)
		if err != nil {
			return err
		}
		p.servers = append(p.servers, &peer{Process: proc, name: b.name, url: url, bare: true})
	}
	return nil
}

func (p *peersRun) describe(c peerCase, a bareAnswer) {
	sizes := fmt.Sprintf("%d bytes", len(a.Body[""].Body))
	for _, coding := range []string{"gzip", "br"} {
		if b, ok := a.Body[coding]; ok {
			sizes += fmt.Sprintf(", %s %d", coding, len(b.Body))
		}
	}
	p.Note("%s%s: %s", c.q.path, c.q.body, sizes)
}

var keyLines = regexp.MustCompile(`key\s+(\S+)\s+line\s+(\S+)`)

// collections imports those of the chain into a store, makes a key, and returns
// it with the flags that let it in.
func (p *peersRun) collections(ctx context.Context, d *devnet.Devnet) (key string, flags []string, err error) {
	store := "sqlite:" + filepath.Join(p.Dir, "collections.db")
	if err := p.Import(ctx, d, store); err != nil {
		return "", nil, err
	}
	text, err := rig.Output(ctx, "", p.Bin, "key", "new", "bench")
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
	small := request{path: "/staking/params"}
	large := request{path: "/staking/validators?pagination.limit=70"}
	single := request{path: path, key: key, body: `{"where":{"collectionAddresses":["` + address + `"]},"pagination":{"limit":1}}`}
	page := request{path: path, key: key, body: `{"orderBy":"assetCount","orderDirection":"desc","pagination":{"limit":20,"offset":0}}`}
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
	if p.Cases == "" {
		return all, nil
	}
	wanted, err := regexp.Compile(p.Cases)
	if err != nil {
		return nil, fmt.Errorf("%w: -cases: %w", rig.ErrUsage, err)
	}
	chosen := slices.DeleteFunc(all, func(c peerCase) bool { return !wanted.MatchString(c.name) })
	if len(chosen) == 0 {
		return nil, fmt.Errorf("%w: -cases %s: there is no such case", rig.ErrUsage, p.Cases)
	}
	return chosen, nil
}
