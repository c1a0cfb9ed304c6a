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

// FreeAddr uses these ports in turn, starting at a random one, because the server of a port may not listen yet. They are
// below the kernel's ephemeral ports, so that no connection takes one.
const firstPort, ports = 20_000, 2_000

var (
	began  = rand.Uint32N(ports)
	issued atomic.Uint32
)

// FreeAddr returns an address of 127.0.0.1 that no process listens on, a new one each time. It panics if no port is
// free.
func FreeAddr() string {
	for range 100 {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", firstPort+(began+issued.Add(1))%ports)) //nolint:noctx // it takes no time
		if err == nil {
			defer l.Close()
			return l.Addr().String()
		}
	}
	panic("no port is free")
}

// Port returns the port of an address or of a URL without a path.
func Port(addr string) string { return addr[strings.LastIndexByte(addr, ':')+1:] }

// Host returns a URL without its scheme.
func Host(url string) string {
	return strings.TrimPrefix(strings.TrimPrefix(url, "http://"), "https://")
}

// Accepts returns a try for Eventually: connect to an address.
func Accepts(addr string) func(context.Context) error {
	return func(ctx context.Context) error {
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", addr)
		if err != nil {
			return err
		}
		return conn.Close()
	}
}

// client accepts any certificate: the servers run on this machine, with self-signed certificates.
var client = &http.Client{Transport: &http.Transport{DisableCompression: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // see above

// Answers returns a try for Eventually: get a URL with a status below 400.
func Answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := Get(ctx, url)
		return err
	}
}

// Get returns the body of a response. Headers have the form "Accept: text/plain". A status of 400 or above is an error.
func Get(ctx context.Context, url string, headers ...string) (string, error) {
	r, err := Request(ctx, url, "", headers...)
	return string(r.Body), err
}

// A Response is a complete response.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Request sends a GET, or a POST if body is not empty. A status of 400 or above is an error.
func Request(ctx context.Context, url, body string, headers ...string) (Response, error) {
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
