package node

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/heights/comet"
	"github.com/tipcache/tipcache/upstream/node/queue"
	"github.com/tipcache/tipcache/upstream/transport"
)

// A client sends requests to one node's REST server.
type client struct {
	base     *url.URL
	http     *http.Client
	maxBody  int64
	memory   *account.Part     // budget of responses; nil means no limit
	hide     *strings.Replacer // redacts header values, and parts of base that may be keys
	gzip     bool              // accept gzip
	protocol *protocol
	isParent atomic.Bool // the server is another tipcache
}

// maxDial limits the time to connect, even if requests may take longer.
const maxDial = 3 * time.Second

// idleClose is how long connections may be idle. The node closes them after 10 s.
const idleClose = 8 * time.Second

func newClient(base *url.URL, headers http.Header, o Options, p *protocol) *client {
	transport := transport.New(base, transport.Options{
		Dial:    min(o.Timeout, maxDial),
		Idle:    idleClose,
		MaxIdle: cmp.Or(o.InFlight, queue.MaxRequests), // the maximum number of concurrent requests
	})
	hide := upstream.NewRedactor(base, upstream.HeaderValues(headers)...)
	return &client{
		base: base, hide: hide, maxBody: o.maxBody, memory: o.Memory, gzip: !isLocal(base), protocol: p,
		http: upstream.NewClient(inflating{transport}, headers, hide),
	}
}

// get sends a request once. The transport repeats a read if the node has closed a reused idle connection. The error is always
// an *upstream.Error.
func (c *client) get(ctx context.Context, r Request, height int64) (*Answer, error) {
	response, err := c.http.Transport.RoundTrip(c.request(ctx, r, height)) // as Do, which spends more on redirects that it does not follow
	if err != nil {
		return nil, upstream.Silence(nodeName, err)
	}
	defer response.Body.Close()
	if coding := response.Header.Get("Content-Encoding"); coding != "" {
		return nil, badAnswer(fmt.Errorf("content coding %q was not requested", coding))
	}
	c.detectParent(response)
	if err := c.parentRefusal(response); err != nil {
		return nil, err
	}
	if r.Cost == Unknown {
		return c.getUnknown(ctx, r, response, height)
	}
	return c.readAnswer(response, r, height)
}

func (c *client) readAnswer(response *http.Response, r Request, height int64) (*Answer, error) {
	body, err := c.read(response, c.largest(r))
	if err != nil {
		return nil, err
	}
	answer, ok := c.protocol.read(response, body, r.sentHeight(height))
	switch {
	case !ok && r.Post != nil && response.StatusCode == http.StatusBadRequest && bytes.Contains(body, []byte("request body too large")):
		return bodyTooLarge(), nil
	case !ok:
		return nil, notNode(response)
	}
	if answer.Reason == Pruned && comet.IsShutdownError(answer.Text) {
		return nil, upstream.Silence(nodeName, errors.New(answer.Text))
	}
	answer.Type = response.Header.Get("Content-Type")
	if c.isParent.Load() {
		answer.readParent(response.Header)
	}
	return answer, nil
}

func (c *client) request(ctx context.Context, r Request, height int64) *http.Request {
	u := *c.base
	u.Path, u.RawPath, u.RawQuery = c.base.Path+r.Path, "", r.Query
	request := (&http.Request{Method: http.MethodGet, URL: &u, Header: http.Header{}}).WithContext(ctx)
	switch height := r.sentHeight(height); {
	case height == 0:
	case c.isParent.Load() && r.Post == nil: // which calls a response immutable only if its URL names the block
		u.RawQuery = strings.TrimPrefix(r.Query+"&x-block-height="+strconv.FormatInt(height, 10), "&")
	default:
		request.Header.Set(c.protocol.height, strconv.FormatInt(height, 10))
	}
	if c.gzip {
		request.Header.Set("Accept-Encoding", "gzip")
	}
	if password, _ := u.User.Password(); u.User != nil {
		request.SetBasicAuth(u.User.Username(), password)
	}
	r.Post.addTo(request)
	if !r.writes() {
		upstream.MarkRepeatable(request)
	}
	return request
}

// addTo makes r a POST request. A nil Post leaves it unchanged.
func (p *Post) addTo(r *http.Request) {
	if p == nil {
		return
	}
	r.Method, r.ContentLength = http.MethodPost, int64(len(p.Body))
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(p.Body)), nil }
	r.Body, _ = r.GetBody()
	if p.Type != "" {
		r.Header.Set("Content-Type", p.Type)
	}
}

// read reads the body of a response within the memory budget.
func (c *client) read(response *http.Response, largest int64) ([]byte, error) {
	body, err := c.memory.Read(response.Body, response.ContentLength, largest)
	if err == nil {
		return body, nil
	}
	failure := readFailed(err)
	if failure.Kind == upstream.Unreachable {
		failure = badAnswer(fmt.Errorf("truncated: %w", err))
	}
	return nil, failure
}

// parseBase parses a base URL. It accepts tcp:// for http://, as CometBFT's configuration does.
func parseBase(raw string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(raw, "/"))
	if err != nil {
		// The error of url.Parse repeats the URL, and with it a password.
		return nil, errors.New("not a URL")
	}
	if u.Scheme == "tcp" {
		u.Scheme = "http"
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("%q is not an http or https URL", u.Redacted())
	}
	if u.RawQuery != "" || u.Fragment != "" {
		return nil, errors.New("a base URL must have no query and no fragment")
	}
	return u, nil
}
