package peers

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/tipcache/tipcache/cmd/bench/bare"
)

// startBare starts servers that have nothing to do but send tipcache's bytes.
func (p *peersRun) startBare(ctx context.Context) error {
	var answers []bare.Answer
	for _, c := range p.cases {
		if slices.ContainsFunc(answers, func(a bare.Answer) bool { return a.Path == c.barePath }) {
			continue // a case of the same question came before
		}
		a, err := c.record(ctx, p.servers[0].url)
		if err != nil {
			return err
		}
		p.describe(c, a)
		answers = append(answers, a)
	}
	for _, b := range []struct {
		name, kind string
		answers    []bare.Answer
	}{
		{"bare net/http", bare.Net, answers}, {bareGin, bare.Gin, answers},
		{"bare gin, 3 headers", bare.Gin, withFewHeaders(answers)}, {"bare fasthttp", bare.Fast, answers},
	} {
		proc, url, err := bare.Start(ctx, p.Rig, b.kind, b.answers, "")
		if err != nil {
			return err
		}
		p.servers = append(p.servers, &peer{Process: proc, name: b.name, url: url, bare: true})
	}
	return nil
}

// record asks tipcache as the case does, for a bare server to answer with the same
// bytes. The answers are asked for twice: the second is a hit.
func (c peerCase) record(ctx context.Context, base string) (a bare.Answer, err error) {
	url := base + c.q.path
	a = bare.Answer{Path: c.barePath, Body: map[string]bare.Bytes{}}
	for _, coding := range []string{"", "gzip", "br"} {
		for range 2 {
			if a.Body[coding], err = c.q.ask(ctx, url, "Accept-Encoding: "+coding); err != nil {
				return a, err
			}
		}
		if a.Body[coding].Header.Get("Content-Encoding") != coding {
			delete(a.Body, coding) // too short to be worth it
		}
	}
	a.ETag = a.Body[""].Header.Get("Etag")
	a.Body["304"], err = c.q.ask(ctx, url, "If-None-Match: "+a.ETag)
	return a, err
}

func (p *peersRun) describe(c peerCase, a bare.Answer) {
	sizes := fmt.Sprintf("%d bytes", len(a.Body[""].Body))
	for _, coding := range []string{"gzip", "br"} {
		if b, ok := a.Body[coding]; ok {
			sizes += fmt.Sprintf(", %s %d", coding, len(b.Body))
		}
	}
	p.Note("%s%s: %s", c.q.path, c.q.body, sizes)
}

// fewHeaders are those that no server leaves out: three of each answer.
var fewHeaders = []string{"Content-Type", "Etag", "Cache-Control", "Content-Length", "Content-Encoding"}

// withFewHeaders are the answers with these headers alone.
func withFewHeaders(answers []bare.Answer) []bare.Answer {
	few := slices.Clone(answers)
	for i := range few {
		few[i].Body = maps.Clone(few[i].Body)
		for coding, b := range few[i].Body {
			b.Header = maps.Clone(b.Header)
			maps.DeleteFunc(b.Header, func(name string, _ []string) bool { return !slices.Contains(fewHeaders, name) })
			few[i].Body[coding] = b
		}
	}
	return few
}
