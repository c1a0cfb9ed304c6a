package peers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
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
	vary     bool     // another body each time, of the same meaning
	only     bool     // only tipcache and the bare servers can
}

// request is what a case asks.
type request struct {
	path string // with its query
	body string // of a POST; "" is a GET
	key  string // X-Api-Key
}

const smallPath, collectionsPath = "/staking/params", "/api/v4/collections"

// peerCases are all there are, given an API key of the collections and the ETag of
// the small answer.
func peerCases(key, tag string) []peerCase {
	var address string
	for c := range devnet.Collections(1, 500) {
		address = c.CollectionAddress
		break
	}
	small := request{path: smallPath}
	large := request{path: "/staking/validators?pagination.limit=70"}
	single := request{path: collectionsPath, key: key, body: `{"where":{"collectionAddresses":["` + address + `"]},"pagination":{"limit":1}}`}
	page := request{path: collectionsPath, key: key, body: `{"orderBy":"assetCount","orderDirection":"desc","pagination":{"limit":20,"offset":0}}`}
	return []peerCase{
		{name: "small", q: small, barePath: small.path},
		{name: "large", q: large, barePath: "/staking/validators"},
		{name: "large, gzip", q: large, barePath: "/staking/validators", headers: []string{"Accept-Encoding: gzip"}},
		{name: "large, br", q: large, barePath: "/staking/validators", headers: []string{"Accept-Encoding: br"}, only: true},
		{name: "small, 304", q: small, barePath: small.path, headers: []string{"If-None-Match: " + tag}, only: true},
		{name: "single, same bytes", q: single, barePath: collectionsPath + "/single", only: true},
		{name: "single, parsed", q: single, barePath: collectionsPath + "/single", only: true, vary: true},
		{name: "page, same bytes", q: page, barePath: collectionsPath + "/page", only: true},
		{name: "page, parsed", q: page, barePath: collectionsPath + "/page", only: true, vary: true},
	}
}

// chooseCases are those of -cases.
func chooseCases(all []peerCase, pattern string) ([]peerCase, error) {
	wanted, err := regexp.Compile(pattern)
	if err != nil {
		return nil, fmt.Errorf("%w: -cases: %w", rig.ErrUsage, err)
	}
	chosen := slices.DeleteFunc(all, func(c peerCase) bool { return !wanted.MatchString(c.name) })
	if len(chosen) == 0 {
		return nil, fmt.Errorf("%w: -cases %s: there is no such case", rig.ErrUsage, pattern)
	}
	return chosen, nil
}

// script makes a Lua script for a POST, "" for a GET. One body costs wrk nothing
// per request; different ones a function call.
func (c peerCase) script(dir string) (path string, err error) {
	if c.q.body == "" {
		return "", nil
	}
	path = filepath.Join(dir, "post.lua")
	return path, render(path, "post.lua.tmpl", map[string]any{"Body": c.q.body, "Vary": c.vary, "Seed": rand.Uint32()})
}

// headers are its own, but for encodings.
func (q request) headers() []string {
	if q.body == "" {
		return nil
	}
	return []string{"Content-Type: application/json", "X-Api-Key: " + q.key}
}

// ask sends it to where a server has it, with one more header unless that is "". The
// answer's headers are those that are not each connection's own.
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
