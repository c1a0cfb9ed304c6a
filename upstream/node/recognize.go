package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/heights/comet"
)

// An API is what a server near a chain speaks, as a phrase for people.
type API string

// The APIs that Recognize knows.
const (
	StoryREST     API = "the REST API of Story"
	CosmosREST    API = "the REST API of the Cosmos SDK"
	CometRPC      API = "the RPC of CometBFT"
	NodeGRPC      API = "gRPC"
	ExecutionJSON API = "the JSON-RPC of an execution client"
)

// Dialect returns the dialect of a REST API, and "" for other APIs.
func (a API) Dialect() Dialect { return map[API]Dialect{StoryREST: Story, CosmosREST: Cosmos}[a] }

// A Server is what Recognize finds out about a server.
type Server struct {
	Host   string
	API    API    // "" if unknown
	Scheme string // the scheme with which it answers, if the address has another one: http or https
}

// recognizeTimeout limits the recognition of one server by one scheme.
const recognizeTimeout = 3 * time.Second

// Recognize finds out what the server at an address speaks: a URL, or HOST:PORT without TLS. It also tries TLS, or no TLS, if the
// server does not speak a known API otherwise. The error means that the server does not answer.
func Recognize(ctx context.Context, address string, headers http.Header) (Server, error) {
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	base, err := parseBase(address)
	if err != nil {
		return Server{}, err
	}
	s := Server{Host: base.Host}
	if s.API, err = speaks(ctx, base, headers); s.API != "" || upstream.KindOf(err) == upstream.Timeout || isDialError(err) {
		return s, err
	}
	other := *base
	other.Scheme = map[string]string{"http": "https", "https": "http"}[base.Scheme]
	var failure error
	s.API, failure = speaks(ctx, &other, headers)
	if _, isTLS := errors.AsType[*tls.CertificateVerificationError](failure); s.API != "" || isTLS {
		s.Scheme, err = other.Scheme, nil
	}
	return s, err
}

// Mismatch returns why a server cannot be used at an address where a server of one of some APIs is expected, or nil.
func (s Server) Mismatch(expected ...API) error {
	switch {
	case s.Scheme == "https":
		return errors.New("it speaks TLS: write https:// in place of http://")
	case s.Scheme == "http":
		return errors.New("it does not speak TLS: write http:// in place of https://")
	case s.API != "" && !slices.Contains(expected, s.API):
		return fmt.Errorf("it speaks %s", s.API)
	}
	return nil
}

// speaks returns the API of a server, "" if it answers in no known form. The error means that it does not answer.
func speaks(ctx context.Context, base *url.URL, headers http.Header) (API, error) {
	ctx, cancel := context.WithTimeout(ctx, recognizeTimeout)
	defer cancel()
	o := Options{}.WithDefaults()
	var failure error
	for _, a := range []API{StoryREST, CosmosREST} {
		p, _ := a.Dialect().protocol()
		c := newClient(base, headers, o, p)
		found, err := c.get(ctx, Request{Path: p.probe}, 0)
		c.http.CloseIdleConnections()
		switch {
		case err == nil && p.isProbed(found):
			return a, nil
		case err != nil && isDialError(err):
			return "", err
		case upstream.KindOf(err) != upstream.BadAnswer:
			failure = cmp.Or(failure, err)
		}
	}
	rpc := comet.New(base, headers, o.Timeout, 0, nil, upstream.NewOutage(o.Logger, ""))
	defer rpc.CloseIdle()
	if _, err := rpc.Status(ctx); err == nil {
		return CometRPC, nil
	}
	if id, err := rpc.Call(ctx, "eth_chainId", nil, o.maxBody); err == nil && strings.HasPrefix(gjson.ParseBytes(id).Str, "0x") {
		return ExecutionJSON, nil
	}
	if speaksGRPC(ctx, base, headers, o) {
		return NodeGRPC, nil
	}
	return "", failure
}

// isProbed reports whether an answer to the dialect's probe comes from a node of the dialect. Other servers, too, have JSON with
// status 200.
func (p *protocol) isProbed(a *Answer) bool {
	return a.NodeStatus != http.StatusNotFound && (a.Reason != OK || !p.hasHeights || gjson.GetBytes(a.Body, "params").IsObject())
}

// speaksGRPC reports whether a server answers a call. Its refusal is an answer, too.
func speaksGRPC(ctx context.Context, base *url.URL, headers http.Header, o Options) bool {
	c, err := newGRPCClient("", Endpoint{GRPC: base.Scheme + "://" + base.Host, Headers: headers}, o)
	if err != nil {
		return false
	}
	defer c.close()
	_, err = chainOf(c.outgoing(ctx, 0), c.current.Load())
	code := status.Code(err)
	return err == nil || code != codes.Unavailable && code != codes.DeadlineExceeded && code != codes.Internal && code != codes.Unknown
}

// Detect returns the dialect of the first node that responds.
func Detect(ctx context.Context, endpoints []Endpoint) (Dialect, error) {
	err := errors.New("no chain node is configured")
	for _, e := range endpoints {
		var s Server
		if s, err = Recognize(ctx, e.REST, e.Headers); err != nil {
			continue
		}
		if err = s.Mismatch(StoryREST, CosmosREST); err == nil && s.API != "" {
			return s.API.Dialect(), nil
		}
		err = fmt.Errorf("%s does not respond in a known dialect: %w", s.Host, cmp.Or(err, errors.New("its API is unknown")))
	}
	return "", err
}
