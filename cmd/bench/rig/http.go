package rig

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
)

// FreeAddr gives out these ports in turns, from a random one on: a port that it has
// given out may still wait for its server. They are below those that the kernel
// gives to connections, of which one might take a port before the server does.
const firstPort, ports = 20_000, 2_000

var (
	began = rand.Uint32N(ports)
	given atomic.Uint32
)

// FreeAddr is an address of 127.0.0.1 that no process listens on, and another one each
// time. It panics when there is no port left.
func FreeAddr() string {
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+(began+given.Add(1))%ports)) //nolint:noctx // it takes no time
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	panic("no port is free")
}

// Port is the port of an address or of a URL without a path.
func Port(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// Host is what stands between http:// and a path.
func Host(url string) string {
	return strings.TrimPrefix(strings.TrimPrefix(url, "http://"), "https://")
}

// Accepts is a try of Eventually: whether an address takes connections.
func Accepts(addr string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// client believes any certificate: the servers run on this machine, with certificates of their own.
var client = &http.Client{Transport: &http.Transport{DisableCompression: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // see above

// Answers is a try of Eventually: whether a URL answers below 400.
func Answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := Get(ctx, url)
		return err
	}
}

// Get returns the body of an answer below 400. Headers are as in "Accept: text/plain".
func Get(ctx context.Context, url string, headers ...string) (string, error) {
	r, err := Ask(ctx, url, "", headers...)
	return string(r.Body), err
}

// A Response is an answer that was read to its end.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Ask sends a GET, or a POST where there is a body. An answer from 400 on is an error.
func Ask(ctx context.Context, url, body string, headers ...string) (Response, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	method := http.MethodGet
	if body != "" {
		method = http.MethodPost
	}
	req, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return Response{}, err
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return Response{}, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		err = fmt.Errorf("%s: %s: %.200s", url, resp.Status, text)
	}
	return Response{resp.StatusCode, resp.Header, text}, err
}
