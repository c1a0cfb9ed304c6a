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
func Host(url string) string { return strings.TrimPrefix(url, "http://") }

// client believes any certificate: whom it asks runs on this machine, and has one of its own.
var client = &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // see above

// Answers is a try of Eventually: whether a URL answers below 500.
func Answers(url string) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := getBelow(ctx, http.StatusInternalServerError, url)
		return err
	}
}

// Get returns the body of an answer below 300. Headers are as in "Accept: text/plain".
func Get(ctx context.Context, url string, headers ...string) (string, error) {
	return getBelow(ctx, http.StatusMultipleChoices, url, headers...)
}

// getBelow returns the body of an answer below a status.
func getBelow(ctx context.Context, below int, url string, headers ...string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		req.Header.Set(name, value)
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= below {
		err = fmt.Errorf("%s: %s: %.200s", url, resp.Status, text)
	}
	return string(text), err
}
