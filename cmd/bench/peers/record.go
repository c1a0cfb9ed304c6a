package peers

import (
	"context"
	"fmt"
	"slices"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// startBare starts a server that has nothing to do but send tipcache's bytes.
func (p *peersRun) startBare(ctx context.Context) {
	var answers []answer
	for _, c := range p.cases {
		for _, q := range c.questions() {
			if slices.ContainsFunc(answers, func(a answer) bool { return a.Path == q.barePath }) {
				continue // a case of the same question came before
			}
			a := q.record(ctx, p.servers[0].target(q))
			if c.crowd == nil {
				p.describe(c, a)
			}
			answers = append(answers, a)
		}
	}
	bare := func(cert string) *peer {
		process, url := startBareServer(ctx, p.Rig, answers, "", cert)
		return &peer{Process: process, name: bareGin, url: url, bare: true}
	}
	plain := bare("")
	if p.cert != "" {
		plain.secure = bare(p.cert)
	}
	p.servers = append(p.servers, plain)
}

// questions are the case, or one for each document of its crowd.
func (c peerCase) questions() []peerCase {
	if c.crowd == nil {
		return []peerCase{c}
	}
	var all []peerCase
	for _, document := range c.crowd.documents {
		c.q.path, c.barePath = document, document
		all = append(all, c)
	}
	return all
}

// record asks tipcache at a URL as the case does, for a bare server to answer with the same
// bytes. The answers are asked for twice: the second is a hit.
func (c peerCase) record(ctx context.Context, url string) answer {
	a := answer{Path: c.barePath, Body: map[string]encoding{}}
	for _, coding := range []string{"", "gzip", "br"} {
		for range 2 {
			a.Body[coding] = rig.Must(c.q.ask(ctx, url, "Accept-Encoding: "+coding))
		}
		if a.Body[coding].Header.Get("Content-Encoding") != coding {
			delete(a.Body, coding) // too short to be worth it
		}
	}
	a.ETag = a.Body[""].Header.Get("Etag")
	a.Body["304"] = rig.Must(c.q.ask(ctx, url, "If-None-Match: "+a.ETag))
	return a
}

func (p *peersRun) describe(c peerCase, a answer) {
	sizes := fmt.Sprintf("%d bytes", len(a.Body[""].Body))
	for _, coding := range []string{"gzip", "br"} {
		if b, ok := a.Body[coding]; ok {
			sizes += fmt.Sprintf(", %s %d", coding, len(b.Body))
		}
	}
	p.Note("%s%s: %s", c.q.path, c.q.body, sizes)
}
