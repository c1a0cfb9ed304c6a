package metadata

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"strings"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
)

// maxBody is the maximum size of a response in bytes, which is much more than a hundred contracts with long texts.
const maxBody = 8 << 20

// Errors for HTTP statuses. errRefused is wrapped by errors that a contract may cause while the provider works: a status 4xx or
// a too large response.
var (
	errRefused      = errors.New("refused")
	errNotFound     = fmt.Errorf("%w: status 404", errRefused)
	errUnauthorized = errors.New("unauthorized")
)

// A client reads JSON from a provider. Its errors contain the provider's name and not the URL, which may contain a key.
type client struct {
	name   string
	base   *url.URL
	http   *http.Client
	secret *strings.Replacer // hides possible keys
	memory *account.Part     // budget of responses; nil means no limit
}

// A fetch reads contracts at lower-case addresses from a provider. It calls learn, from any goroutine, with the index of each
// contract in the response, and with nil if the provider has no record of the contract. It does not call learn for contracts
// that the response omits. An error, which is an *upstream.Error or the context's, means that some contracts were not read.
// Its kind is Overloaded if the provider limits the rate. Otherwise one of the contracts may be the cause.
type fetch func(ctx context.Context, c *client, addresses []string, learn func(i int, c *Contract)) error

// providers are the supported providers by their name in logs, errors and metrics.
var providers = map[string]fetch{"alchemy": fetchAlchemy, "blockscout": fetchBlockscout}

// minKey is the minimum length of the last path element of Alchemy's URL to be redacted even if it is a word. Shorter ones
// may occur in descriptions.
const minKey = 6

var errSpec = errors.New("metadata: the provider must be alchemy:URL, blockscout:URL or none")

func openProvider(spec string, transport http.RoundTripper, memory *account.Part) (*client, error) {
	name, address, _ := strings.Cut(spec, ":")
	base, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || providers[name] == nil {
		return nil, errSpec // err contains the URL
	}
	var secrets []string
	if key := path.Base(base.Path); name == "alchemy" && len(key) >= minKey {
		secrets = append(secrets, key)
	}
	if transport == nil {
		transport = upstream.NewTransport(8)
	}
	return &client{name: name, base: base, http: upstream.NewClient(transport, nil, nil), secret: upstream.NewRedactor(base, secrets...), memory: memory}, nil
}

// do sends a request to a path below the base URL and decodes the response, a JSON object or array. The error is an
// *upstream.Error, whose kind is Overloaded only for status 429, or context.Canceled. do turns a panic into an error, because a
// panic on a worker's goroutine would end the process.
func (c *client) do(ctx context.Context, method string, body []byte, answer any, path ...string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = c.bad(errors.New(c.secret.Replace(fmt.Sprintf("panic: %v", p))))
		}
	}()
	req, err := c.request(ctx, method, body, path)
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return c.silence(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := c.read(ctx, resp) // also for a refusal, so that the connection can be reused
	if refused := c.refusal(resp); refused != nil {
		return refused
	}
	if err != nil {
		return err
	}
	return c.decode(text, answer)
}

func (c *client) request(ctx context.Context, method string, body []byte, path []string) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.base.JoinPath(path...).String(), bytes.NewReader(body))
	if err != nil {
		return nil, c.bad(errors.New("cannot create the request")) // err contains the URL
	}
	req.Header.Set("User-Agent", "tipcache")
	req.Header.Set("Accept", "application/json")
	upstream.MarkRepeatable(req)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// read reads a complete body of at most maxBody bytes.
func (c *client) read(ctx context.Context, resp *http.Response) ([]byte, error) {
	text, err := c.memory.Read(resp.Body, resp.ContentLength, maxBody)
	switch {
	case errors.Is(err, account.ErrTooLarge):
		return nil, c.bad(fmt.Errorf("%w: %w: response exceeds %d bytes", errRefused, account.ErrTooLarge, maxBody))
	case errors.Is(err, account.ErrFull):
		return nil, c.bad(fmt.Errorf("too little free memory for the response: %w", err))
	case err != nil && ctx.Err() != nil:
		return nil, c.silence(ctx, err)
	case err != nil:
		return nil, c.bad(errors.New("response ended early: " + c.secret.Replace(err.Error())))
	}
	return text, nil
}

// refusal returns the error for a status other than 200. It wraps errRefused if a contract may be the cause: for 4xx except
// those about credentials and timing.
func (c *client) refusal(resp *http.Response) error {
	switch status := resp.StatusCode; {
	case status == http.StatusOK:
		return nil
	case status == http.StatusNotFound:
		return c.bad(errNotFound)
	case status == http.StatusTooManyRequests:
		return &upstream.Error{
			Kind:       upstream.Overloaded,
			Msg:        c.name + " wants fewer requests",
			RetryAfter: upstream.RetryAfter(resp.Header),
		}
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired:
		return c.bad(fmt.Errorf("%w: status %d", errUnauthorized, status))
	case status >= 400 && status < 500 && status != http.StatusRequestTimeout:
		return c.bad(fmt.Errorf("%w: status %d", errRefused, status))
	}
	return c.bad(fmt.Errorf("status %d", resp.StatusCode))
}

// decode decodes a JSON object or array. It skips members of unexpected types. Its errors do not contain the decoder's error,
// which quotes the response.
func (c *client) decode(text []byte, answer any) error {
	text = bytes.TrimSpace([]byte(c.secret.Replace(string(text)))) // before strings are truncated
	if !bytes.HasPrefix(text, []byte("{")) && !bytes.HasPrefix(text, []byte("[")) {
		return c.bad(errors.New("response is not JSON"))
	}
	err := json.Unmarshal(text, answer)
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && mismatch.Field != "" {
		return nil
	}
	if err != nil {
		return c.bad(errors.New("response is not the expected JSON"))
	}
	return nil
}

func (c *client) bad(err error) *upstream.Error {
	return &upstream.Error{Kind: upstream.BadAnswer, Msg: c.name + " gave no usable answer", Err: err}
}

// silence returns the error for a failure of the transport, without the URL.
func (c *client) silence(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	silent := upstream.Silence(c.name, err)
	silent.Err = errors.New(c.secret.Replace(upstream.Bare(err).Error()))
	return silent
}
