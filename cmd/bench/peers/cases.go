package peers

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// peerCase is a kind of request that all servers answer from memory.
type peerCase struct {
	name     string
	q        request
	barePath string   // where bare servers serve it
	headers  []string // of every request, beside its own
	vary     bool     // another body each time, of the same meaning: a call of the RPC has another id
	call     bool     // to the RPC, on its listener
	only     bool     // only tipcache and the bare servers can
	tls      bool     // not for Varnish, which has no TLS, and for nginx with its log alone
	http2    bool     // with TLS
	crowd    *crowd   // many browsers ask; nil: one client
}

// A crowd is browsers that ask for several documents, whose headers differ.
type crowd struct {
	documents []string
	browsers  int  // that come by turns; 0: 300
	zipf      bool // the documents are asked for by Zipf's law at 0.9, the first most
	pipeline  int  // requests sent at once, 1 at least
	ingress   bool // a proxy before the server names the client of each request
	close     bool // a connection for each request
}

// request is what a case asks.
type request struct {
	path string // with its query
	body string // of a POST; "" is a GET
	key  string // X-Api-Key
}

const smallPath, collectionsPath = "/staking/params", "/api/v4/collections"

// peerCases are all there are, given an API key of the collections, the ETag of the small
// answer and operators of the chain.
func peerCases(key, tag string, operators []string) []peerCase {
	var address string
	for c := range devnet.Collections(1, 500) {
		address = c.CollectionAddress
		break
	}
	small, documents := request{path: smallPath}, []string{smallPath}
	for _, operator := range operators[:19] {
		documents = append(documents, "/staking/validators/"+operator)
	}
	large := request{path: "/staking/validators?pagination.limit=70"}
	veryLarge := request{path: busyPath(1)}
	single := request{path: collectionsPath, key: key, body: `{"where":{"collectionAddresses":["` + address + `"]},"pagination":{"limit":1}}`}
	page := request{path: collectionsPath, key: key, body: `{"orderBy":"assetCount","orderDirection":"desc","pagination":{"limit":20,"offset":0}}`}
	return []peerCase{
		{name: "small", q: small, barePath: small.path},
		{name: "crowd", q: small, crowd: &crowd{documents: documents, pipeline: 1}},
		{name: "crowd, 5,000 browsers", q: small, crowd: &crowd{documents: documents, browsers: 5_000, pipeline: 1}},
		{name: "crowd, 20,000 browsers", q: small, crowd: &crowd{documents: documents, browsers: 20_000, pipeline: 1}},
		{name: "crowd, 1,000 documents", q: small, crowd: &crowd{documents: manyDocuments(1_000), zipf: true, pipeline: 1}},
		{name: "crowd, ingress", q: small, crowd: &crowd{documents: documents, pipeline: 1, ingress: true}},
		{name: "crowd, pipelined", q: small, crowd: &crowd{documents: documents, pipeline: 8}},
		{name: "crowd, a connection each", q: small, crowd: &crowd{documents: documents, pipeline: 1, close: true}},
		{name: "large", q: large, barePath: "/staking/validators"},
		{name: "very large", q: veryLarge, barePath: "/very-large"},
		{name: "small, TLS", q: small, barePath: small.path, tls: true},
		{name: "small, HTTP/2", q: small, barePath: small.path, tls: true, http2: true},
		{name: "large, gzip", q: large, barePath: "/staking/validators", headers: []string{"Accept-Encoding: gzip"}},
		{name: "large, br", q: large, barePath: "/staking/validators", headers: []string{"Accept-Encoding: br"}, only: true},
		{name: "small, 304", q: small, barePath: small.path, headers: []string{"If-None-Match: " + tag}, only: true},
		{name: "single, same bytes", q: single, barePath: collectionsPath + "/single", only: true},
		{name: "single, parsed", q: single, barePath: collectionsPath + "/single", only: true, vary: true},
		{name: "page, same bytes", q: page, barePath: collectionsPath + "/page", only: true},
		{name: "page, parsed", q: page, barePath: collectionsPath + "/page", only: true, vary: true},
	}
}

// callCases are calls of the RPC by POST, whose ids differ, and what they are compared with.
func callCases() []peerCase {
	const rest = "/cosmos/staking/v1beta1/params"
	call := request{path: "/", body: `{"jsonrpc":"2.0","id":100000000000,"method":"abci_query","params":{"path":"/cosmos.staking.v1beta1.Query/Params","data":"","prove":false}}`}
	return []peerCase{
		{name: "small", q: request{path: rest}, barePath: rest},
		{name: "call, other ids", q: call, barePath: "/call", vary: true, call: true},
	}
}

// manyDocuments are lists of which each is empty.
func manyDocuments(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprintf("/staking/validators/0x%040x/delegations", 0xd0c+i))
	}
	return all
}

// chooseCases are those of -cases.
func chooseCases[A any](all []A, pattern string, nameOf func(A) string) []A {
	wanted, err := regexp.Compile(pattern)
	chosen := slices.DeleteFunc(slices.Clone(all), func(c A) bool { return err != nil || !wanted.MatchString(nameOf(c)) })
	if len(chosen) == 0 {
		rig.Check(fmt.Errorf("%w: -cases %s: there is no such case", rig.ErrUsage, pattern))
	}
	return chosen
}

// script makes a Lua script for a POST or a crowd on so many connections, "" for a GET. One
// body costs wrk nothing per request; different requests a function call.
func (c peerCase) script(dir string, connections int) (path string) {
	name, values := "post.lua", map[string]any{"Body": c.q.body, "Vary": c.vary, "Call": c.call, "Seed": rand.Uint32()}
	if c.crowd != nil {
		name, values = "crowd.lua", map[string]any{
			"Documents": c.crowd.documents, "Browsers": cmp.Or(c.crowd.browsers, 300), "Zipf": c.crowd.zipf, "Connections": connections, "Pipeline": c.crowd.pipeline,
			"Ingress": c.crowd.ingress, "Close": c.crowd.close, "Seed": rand.Uint32(),
		}
	} else if c.q.body == "" {
		return ""
	}
	path = filepath.Join(dir, name)
	rig.Check(os.WriteFile(path, []byte(render(name+".tmpl", values)), 0o600))
	return path
}

// headers are its own, but for encodings.
func (q request) headers() []string {
	switch {
	case q.body == "":
		return nil
	case q.key == "":
		return []string{"Content-Type: application/json"}
	}
	return []string{"Content-Type: application/json", "X-Api-Key: " + q.key}
}

// ask sends it to where a server has it, with one more header unless that is "". The
// answer's headers are the headers that are not each connection's own.
func (q request) ask(ctx context.Context, url, header string) (encoding, error) {
	method, headers := http.MethodGet, q.headers()
	if q.body != "" {
		method = http.MethodPost
	}
	if header != "" {
		headers = append(headers, header)
	}
	addr, path, _ := strings.Cut(rig.Host(url), "/")
	c := clients.Conn{Addr: addr}
	defer c.Close()
	r, err := c.Do(ctx, clients.Request(method, "/"+path, q.body, headers...))
	if err == nil && r.Status >= http.StatusBadRequest {
		err = fmt.Errorf("%s: status %d: %.200s", url, r.Status, r.Body)
	}
	if err == nil {
		r.Header.Del("Date")
		r.Header.Del("Connection")
	}
	return encoding{Header: r.Header, Body: r.Body}, err
}
