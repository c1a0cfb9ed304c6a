package peers

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// validity is how long nginx caches responses here: longer than the measurement takes.
const validity = 24 * time.Hour

// Hits measures cache hits of all servers. The chain makes no blocks meanwhile.
func Hits(ctx context.Context, r *rig.Rig) {
	d := r.Chain(rig.Still)
	store := "sqlite:" + filepath.Join(r.Dir, "collections.db")
	r.Import(ctx, r.Collections(d.Collections()), store)
	flags := []string{"--store", store, "--collections-auth", "keys", "--api-key-sha256", fmt.Sprintf("bench:%x", sha256.Sum256([]byte(apiKey)))}
	o := origin{node: startBusyNode(r, d, 0).url, comet: d.CometURL(), fresh: validity}
	servers := beforeAll(ctx, r, []string{tipcacheName, noLaneName, nginxName, bareName}, o, flags...)
	tag := rig.Must(rig.Request(ctx, servers[0].urls[plain]+smallPath, "")).Header.Get("Etag")
	cases := rig.CasesOf(r, hitCases(tag, d.Validators()))
	if slices.ContainsFunc(cases, func(c hitCase) bool { return c.offer == secure }) {
		o.cert = r.Certificate(ctx)
		servers = append(servers, beforeAll(ctx, r, []string{tipcacheName, nginxName, bareName}, o)...)
	}
	report(r, "peers", compare(ctx, r, r.Connections, servers, subjects(r, cases, servers)))
	r.Note("The node sends no ETag, so nginx cannot answer 304.")
}

// Calls measures RPC calls by POST, compared with a small REST hit and with bare handlers.
func Calls(ctx context.Context, r *rig.Rig) {
	d := r.Chain(devnet.Options{Seed: 1, Interval: -1, Dialect: devnet.Cosmos})
	servers := beforeAll(ctx, r, []string{tipcacheName, noLaneName, bareName}, origin{node: d.NodeURL(), comet: d.CometURL()})
	report(r, "calls", compare(ctx, r, r.Connections, servers, subjects(r, callCases, servers)))
}

// subjects returns a subject for each case. Bare servers send what tipcache has sent.
func subjects(r *rig.Rig, cases []hitCase, servers []*peer) (all []subject) {
	for _, c := range cases {
		ours := servers[slices.IndexFunc(servers, func(s *peer) bool { return s.urls[c.offer] != "" })]
		all = append(all, subject{c.name, c.offer, func(ctx context.Context, s *peer, connections int) result {
			c.prepare(ctx, s, ours)
			return c.measure(ctx, r, s, connections)
		}})
	}
	return all
}

// hitShare is the minimum share of hits among tipcache's responses.
const hitShare = 0.999

// measure runs a load once. It fails if too few of tipcache's responses were hits.
func (c hitCase) measure(ctx context.Context, r *rig.Rig, s *peer, connections int) result {
	time.Sleep(50 * time.Millisecond) // a page is fresh for a few seconds only and is read again
	l := clients.Load{URL: s.urls[c.offer] + c.path, Connections: connections, Length: rig.Sized(r, 2*time.Second, time.Second), Headers: c.headers, Script: c.script(r.Dir, connections)}
	load := clients.Wrk
	if c.http2 {
		load = clients.HTTP2
	}
	run := func() clients.Loaded { return rig.Must(load(ctx, l)) }
	if s.replica == nil {
		return spend(s.Process, run)
	}
	all, hits, _ := s.replica.CacheRequests(ctx)
	came := spend(s.Process, run)
	allAfter, hitsAfter, _ := s.replica.CacheRequests(ctx)
	if share := (hitsAfter - hits) / (allAfter - all); !(share >= hitShare) {
		rig.Check(fmt.Errorf("only %.2f %% of the responses were hits in memory, want at least %.1f %%", 100*share, 100*hitShare))
	}
	return came
}

// A hitCase is a kind of request that servers answer from memory.
type hitCase struct {
	name    string
	offer   offer
	path    string // with its query
	body    string // of a POST, in which white space and an RPC call's id differ from request to request; "" means GET
	headers []string
	http2   bool
	crowd   *crowd // requests of many browsers; nil means one client
}

func (c hitCase) String() string { return c.name }

// A crowd simulates browsers that request several documents with different headers.
type crowd struct {
	documents []string
	browsers  int  // number of browsers, in turn; 0 means 300
	pipeline  int  // requests sent at once; 0 means 1
	ingress   bool // as an ingress: each request names its client in X-Forwarded-For
	close     bool // a connection for each request
}

const smallPath, collectionsPath, apiKey = "/staking/params", "/api/v4/collections", "bench"

// blanks can be varied in a body without changing its meaning.
var blanks = strings.Repeat(" ", 24)

// hitCases returns the cases. They need the ETag of the small response, and validators of the chain.
func hitCases(tag string, operators []string) []hitCase {
	documents := crowdDocuments(operators)
	const list = "/staking/validators?pagination.limit=70"
	post := []string{"Content-Type: application/json", "X-Api-Key: " + apiKey}
	page := `{` + blanks + `"orderBy":"assetCount","orderDirection":"desc","pagination":{"limit":20,"offset":0}}`
	return []hitCase{
		{name: "small", path: smallPath},
		{name: "crowd, 20,000 browsers", crowd: &crowd{documents: documents, browsers: 20_000}},
		{name: "crowd, ingress", crowd: &crowd{documents: documents, ingress: true}},
		{name: "crowd, pipelined", crowd: &crowd{documents: documents, pipeline: 8}},
		{name: "crowd, a connection each", crowd: &crowd{documents: documents, close: true}},
		{name: "large", path: list},
		{name: "very large", path: busyPath(huge, 1)},
		{name: "small, TLS", path: smallPath, offer: secure},
		{name: "small, HTTP/2", path: smallPath, offer: secure, http2: true},
		{name: "large, gzip", path: list, headers: []string{"Accept-Encoding: gzip"}},
		{name: "small, 304", path: smallPath, offer: own, headers: []string{"If-None-Match: " + tag}},
		{name: "page, parsed", path: collectionsPath, offer: own, headers: post, body: page},
	}
}

// crowdDocuments returns the paths that crowds request.
func crowdDocuments(operators []string) []string {
	documents := []string{smallPath}
	for _, operator := range operators[:19] {
		documents = append(documents, "/staking/validators/"+operator)
	}
	return documents
}

// callCases are RPC calls by POST with different ids, and REST requests to compare them with.
var callCases = []hitCase{
	{name: "small, by REST", path: "/cosmos/staking/v1beta1/params"},
	{
		name: "call, other ids", offer: rpc, path: "/", headers: []string{"Content-Type: application/json"},
		body: `{"jsonrpc":"2.0","id":100000000000,"method":"abci_query","params":{"path":"/cosmos.staking.v1beta1.Query/Params","data":"","prove":false}}`,
	},
}

// paths returns the paths that a server must have in memory.
func (c hitCase) paths() []string {
	if c.crowd != nil {
		return c.crowd.documents
	}
	return []string{c.path}
}

// prepare makes a server cache the responses of a case. The bare server gets the responses of another server instead.
func (c hitCase) prepare(ctx context.Context, s, from *peer) {
	for _, path := range c.paths() {
		headers := c.headers
		if s.name == bareName {
			headers = append(headers[:len(headers):len(headers)], recordFrom+": "+from.urls[c.offer]+path)
		}
		_ = rig.Must(rig.Request(ctx, s.urls[c.offer]+path, c.body, headers...))
	}
}

// script writes a Lua script for a POST or a crowd on the given number of connections, and returns its path; "" means a
// GET without a script. A script costs wrk a function call per request.
func (c hitCase) script(dir string, connections int) (path string) {
	name, values := "post.lua", map[string]any{"Body": c.body, "Blanks": blanks, "Seed": rand.Uint32()}
	if c.crowd != nil {
		name, values = "crowd.lua", map[string]any{
			"Documents": c.crowd.documents, "Browsers": cmp.Or(c.crowd.browsers, 300), "Connections": connections, "Pipeline": max(1, c.crowd.pipeline),
			"Ingress": c.crowd.ingress, "Close": c.crowd.close, "Seed": rand.Uint32(),
		}
	} else if c.body == "" {
		return ""
	}
	path = filepath.Join(dir, name)
	rig.Check(os.WriteFile(path, []byte(render(name+".tmpl", values)), 0o600))
	return path
}
