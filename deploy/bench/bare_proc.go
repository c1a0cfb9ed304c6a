package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// bareProc is a bare server in a process of its own.
type bareProc struct {
	*process
	url string // without a path
}

// bare starts a bare server: kind is "gin" or "net/http".
func (b *bench) bare(ctx context.Context, kind string, answers []bareAnswer, flags ...string) (*bareProc, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(answers)
	if err != nil {
		return nil, err
	}
	addr := freeAddr()
	file := filepath.Join(b.dir, "answers-"+port(addr)+".json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, err
	}
	name := "bare-" + strings.ReplaceAll(kind, "/", "-") + "-" + port(addr)
	argv := append([]string{self, bareCommand, "-kind", kind, "-listen", addr, "-answers", file}, flags...)
	p, err := b.start(ctx, name, argv...)
	if err != nil {
		return nil, err
	}
	s := &bareProc{process: p, url: "http://" + addr}
	return s, p.ready(ctx, s.url+"/")
}

// record asks tipcache as a case does, for a bare server to answer with the
// same bytes. The answers are asked for twice: the second is a hit.
func record(ctx context.Context, base, path string, q question) (bareAnswer, error) {
	url := base + q.path
	a := bareAnswer{Path: path, Post: q.body != "", Body: map[string]bareBytes{}}
	for _, coding := range []string{"", "gzip", "br"} {
		for range 2 {
			got, err := q.ask(ctx, url, "Accept-Encoding", coding)
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
	held, err := q.ask(ctx, url, "If-None-Match", a.ETag)
	a.Body["304"] = held
	return a, err
}

// question is what a case asks.
type question struct {
	path string // with its query
	body string // of a POST; "" is a GET
	key  string // X-Api-Key
}

// ask sends the question to where a server has it, with one more header. The
// answer's headers are those that are not each connection's own.
func (q question) ask(ctx context.Context, url, header, value string) (bareBytes, error) {
	method := http.MethodGet
	if q.body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(q.body))
	if err != nil {
		return bareBytes{}, err
	}
	for _, h := range q.headers() {
		name, v, _ := strings.Cut(h, ": ")
		req.Header.Set(name, v)
	}
	req.Header.Set(header, value)
	resp, err := plainClient.Do(req)
	if err != nil {
		return bareBytes{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s: %s: %.200s", url, resp.Status, body)
	}
	resp.Header.Del("Date")
	resp.Header.Del("Connection")
	return bareBytes{Header: resp.Header, Body: body}, err
}

// plainClient leaves encodings to the headers.
var plainClient = &http.Client{Transport: &http.Transport{DisableCompression: true}}

// headers are those of every request of the question, but for encodings.
func (q question) headers() []string {
	if q.body == "" {
		return nil
	}
	return []string{"Content-Type: application/json", "X-Api-Key: " + q.key}
}
