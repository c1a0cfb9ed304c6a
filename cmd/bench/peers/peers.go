// Package peers measures tipcache beside nginx, Varnish and servers that do nothing
// but send its bytes.
package peers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// peersRun is the state of the part.
type peersRun struct {
	*rig.Rig
	length  time.Duration // of one run of wrk
	servers []*peer       // the first is tipcache
	cases   []peerCase
	cert    string            // of the servers with TLS; "": no case wants them
	results map[cell][]result // by rounds
	failed  map[cell]error
}

// cell is a place in the tables.
type cell struct {
	server, name string
	connections  int
}

// result is what one run of wrk came to.
type result struct {
	clients.Loaded
	cpu float64 // seconds per 100,000 requests
	rss int64
}

// Hits measures hits beside other servers.
func Hits(ctx context.Context, r *rig.Rig) {
	compare(ctx, r, (*peersRun).startAll)
	r.Note("The node sends no ETag, so nginx and Varnish have no 304 to give, and neither has br.")
}

// Calls measures calls of the RPC by POST beside a small hit by REST, and beside bare handlers.
func Calls(ctx context.Context, r *rig.Rig) {
	defer func(d devnet.Dialect) { r.Dialect = d }(r.Dialect)
	r.Dialect = devnet.Cosmos
	compare(ctx, r, func(p *peersRun, ctx context.Context) {
		d := p.Chain(rig.Still)
		for _, name := range []string{tipcacheName, noLaneName} {
			p.servers = append(p.servers, before(ctx, p.Rig, name, origin{node: d.NodeURL(), comet: d.CometURL()}))
		}
		p.cases = callCases()
		p.startBare(ctx)
	})
}

func compare(ctx context.Context, r *rig.Rig, start func(*peersRun, context.Context)) {
	p := &peersRun{Rig: r, length: 2 * time.Second, results: map[cell][]result{}, failed: map[cell]error{}}
	if r.Short {
		p.length = time.Second
	}
	start(p, ctx)
	for round := range r.Rounds {
		for _, connections := range r.Connections {
			for _, c := range p.cases {
				for i := range p.servers { // another one begins each round
					p.turn(ctx, p.servers[(round+i)%len(p.servers)], c, connections)
				}
				rig.Check(ctx.Err())
			}
		}
		r.Progress("peers: round %d of %d", round+1, r.Rounds)
	}
	rig.Check(p.report())
}

// validity is how long the general caches keep answers in this part: longer
// than it takes.
const validity = 24 * time.Hour

// veryLargeBytes is how long the longest answer is.
const veryLargeBytes = 515 << 10

// startAll starts the chain, which stands still, and all servers before it.
func (p *peersRun) startAll(ctx context.Context) {
	d := p.Chain(rig.Still)
	key, flags := p.collections(ctx, d)
	node := startBusyNode(p.Rig, d, 0)
	node.fill(veryLargeBytes)
	o := origin{node: node.url, comet: d.CometURL(), fresh: validity}
	for _, name := range []string{tipcacheName, noLaneName, nginxName, varnishName} {
		s := before(ctx, p.Rig, name, o, flags...)
		p.servers = append(p.servers, s)
		if s.logged != "" {
			p.servers = append(p.servers, &peer{Process: s.Process, name: name + withLog, url: s.logged, accessLog: s.accessLog})
		}
	}
	small := rig.Must(request{path: smallPath}.ask(ctx, p.servers[0].url+smallPath, ""))
	p.cases = chooseCases(peerCases(key, small.Header.Get("Etag"), d.Validators()), p.Cases, func(c peerCase) string { return c.name })
	if slices.ContainsFunc(p.cases, func(c peerCase) bool { return c.tls }) {
		p.startSecure(ctx, o, flags)
	}
	p.startBare(ctx)
}

// startSecure starts what the cases with TLS need.
func (p *peersRun) startSecure(ctx context.Context, o origin, flags []string) {
	p.cert = filepath.Join(p.Dir, "cert.pem")
	_ = rig.Must(rig.Output(ctx, "", "openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
		"-subj", "/CN=bench", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", p.cert, "-out", p.cert))
	o.cert = p.cert
	for _, s := range p.servers {
		switch s.name {
		case tipcacheName:
			s.secure = before(ctx, p.Rig, tipcacheName, o, flags...)
		case nginxName + withLog:
			s.secure = before(ctx, p.Rig, nginxName, o).secure
		}
	}
}

var keyLines = regexp.MustCompile(`key\s+(\S+)\s+line\s+(\S+)`)

// collections imports those of the chain into a store, makes a key, and returns
// it with the flags that let it in.
func (p *peersRun) collections(ctx context.Context, d *devnet.Devnet) (key string, flags []string) {
	store := "sqlite:" + filepath.Join(p.Dir, "collections.db")
	p.Import(ctx, d, store)
	m := keyLines.FindStringSubmatch(rig.Must(rig.Output(ctx, "", p.Bin, "key", "new", "bench")))
	if m == nil {
		rig.Check(errors.New("tipcache key new does not print a key and a line"))
	}
	return m[1], []string{"--store", store, "--collections-auth", "keys", "--api-key-sha256", m[2]}
}

// turn measures a server that has something like the case, and keeps what comes of it.
func (p *peersRun) turn(ctx context.Context, s *peer, c peerCase, connections int) {
	if s.target(c) == "" {
		return
	}
	if c.tls {
		s = s.secure
	}
	at := cell{s.name, c.name, connections}
	err := rig.Try(func() { p.results[at] = append(p.results[at], p.measure(ctx, s, c, connections)) })
	_ = os.Truncate(s.Log, 0) // an access log of all rounds would fill disks
	_ = os.Truncate(s.accessLog, 0)
	if err != nil {
		p.failed[at] = fmt.Errorf("%s, %s, %d connections: %w", c.name, s.name, connections, err)
	}
}

// hitShare is how much of what tipcache is asked must be hits: these cases
// compare hits.
const hitShare = 0.999

// measure runs wrk once. tipcache has to answer nearly all from memory.
func (p *peersRun) measure(ctx context.Context, s *peer, c peerCase, connections int) (r result) {
	l := clients.Load{URL: s.target(c), Connections: connections, Length: p.length, Headers: append(c.q.headers(), c.headers...)}
	for _, q := range c.questions() {
		s.prepare(ctx, q)
	}
	time.Sleep(50 * time.Millisecond) // for a page that is read anew, since it is fresh for a few seconds only
	l.Script = c.script(p.Dir, connections)
	load := clients.Wrk
	if c.http2 {
		load = clients.HTTP2
	}
	all, hits := s.counts(ctx)
	spent := rig.Spent(func() { r.Loaded = rig.Must(load(ctx, l)) }, s.Process)
	r.cpu, r.rss = spent[0].Seconds()/r.Requests*1e5, rig.Must(s.Usage()).RSS
	allAfter, hitsAfter := s.counts(ctx)
	if share := (hitsAfter - hits) / (allAfter - all); s.replica != nil && !(share >= hitShare) {
		rig.Check(fmt.Errorf("only %.2f %% of the answers were hits in memory", 100*share))
	}
	return r
}

// prepare has a server keep the answer to a case.
func (p *peer) prepare(ctx context.Context, c peerCase) {
	if c.tls {
		_ = rig.Must(rig.Get(ctx, p.url+c.q.path))
	} else {
		_ = rig.Must(c.q.ask(ctx, p.target(c), ""))
	}
}

// counts has zeros for what is not tipcache.
func (p *peer) counts(ctx context.Context) (all, hits float64) {
	if p.replica != nil {
		all, hits, _ = p.replica.CacheRequests(ctx)
	}
	return all, hits
}

// target is where a peer serves a case, "" where it has nothing like it. The
// general caches cannot do everything before this node.
func (p *peer) target(c peerCase) string {
	switch {
	case c.tls && p.secure != nil:
		return p.secure.url + c.q.path
	case c.tls && !strings.HasPrefix(p.url, "https:"):
		return ""
	case c.call && !p.bare:
		return p.rpc + c.q.path
	case p.bare && c.crowd != nil:
		return p.url + c.q.path
	case p.bare:
		return p.url + c.barePath
	case p.replica != nil || !c.only && len(c.headers) == 0:
		return p.url + c.q.path
	case !c.only && p.gzip != "":
		return p.gzip + c.q.path
	}
	return ""
}
