package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// StartBare starts a bare server of a kind in a process of its own, and returns
// its URL.
func StartBare(ctx context.Context, r *rig.Rig, kind string, answers []bareAnswer, flags ...string) (*rig.Process, string, error) {
	text, err := json.Marshal(answers)
	if err != nil {
		return nil, "", err
	}
	file, err := r.File("answers-"+rig.Port(rig.FreeAddr())+".json", string(text))
	if err != nil {
		return nil, "", err
	}
	return r.Self(ctx, BareCommand, append([]string{"-kind", kind, "-answers", file}, flags...)...)
}

// record asks tipcache as a case does, for a bare server to answer with the
// same bytes. The answers are asked for twice: the second is a hit.
func record(ctx context.Context, base, path string, q request) (bareAnswer, error) {
	url := base + q.path
	a := bareAnswer{Path: path, Post: q.body != "", Body: map[string]bareBytes{}}
	for _, coding := range []string{"", "gzip", "br"} {
		for range 2 {
			got, err := q.ask(ctx, url, "Accept-Encoding: "+coding)
			if err != nil {
				return a, err
			}
			a.Body[coding] = got
		}
		if a.Body[coding].Header.Get("Content-Encoding") != coding {
			delete(a.Body, coding) // too short to be worth it
		}
	}
	a.ETag = a.Body[""].Header.Get("Etag")
	held, err := q.ask(ctx, url, "If-None-Match: "+a.ETag)
	a.Body["304"] = held
	return a, err
}

// request is what a case asks.
type request struct {
	path string // with its query
	body string // of a POST; "" is a GET
	key  string // X-Api-Key
}

// ask sends it to where a server has it, with one more header. The
// answer's headers are those that are not each connection's own.
func (q request) ask(ctx context.Context, url, header string) (bareBytes, error) {
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
	return bareBytes{Header: r.Header, Body: r.Body}, err
}

// headers are its own, but for encodings.
func (q request) headers() []string {
	if q.body == "" {
		return nil
	}
	return []string{"Content-Type: application/json", "X-Api-Key: " + q.key}
}
