package metadata

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
)

// maxBody bounds an answer, in bytes: far more than a hundred contracts with long texts.
const maxBody = 8 << 20

// Causes of the error for an answer with a status of that meaning.
var (
	errNotFound     = fmt.Errorf("%w: status 404", errRefused)
	errUnauthorized = errors.New("unauthorized")
)

// A client reads JSON from a provider. Its errors have its name, not the URL, which may hold a key.
type client struct {
	name   string
	base   *url.URL
	http   *http.Client
	secret *strings.Replacer // hides what may be a key
	memory *account.Part     // of answers; nil means no limit
}

// A fetch asks a provider for contracts, at addresses in lower case. It tells learn of each by its
// place among them, from any goroutine, with nil for one that the provider has no record of; what
// it tells nothing of, the answer left out. With an error, an *upstream.Error or the context's, not
// all were asked for: with kind Overloaded because the provider wants fewer requests, else perhaps
// because of one of them.
type fetch func(ctx context.Context, c *client, addresses []string, learn func(i int, c *contract)) error

// providers are the kinds there are, by the name in logs, errors and metrics.
var providers = map[string]fetch{"alchemy": fetchAlchemy, "blockscout": fetchBlockscout}

// minKey is the length from which the last element of Alchemy's URL is hidden in
// what the provider says, even if it is a word: others occur in descriptions.
const minKey = 6

var errSpec = errors.New("metadata: the provider must be alchemy:URL, blockscout:URL or none")

// openProvider makes the client of the provider that the spec names.
func openProvider(spec string, transport http.RoundTripper, memory *account.Part) (*client, error) {
	name, address, _ := strings.Cut(spec, ":")
	base, err := url.Parse(strings.TrimRight(address, "/"))
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" || providers[name] == nil {
		return nil, errSpec // without err, which repeats the URL
	}
	var secrets []string
	if key := path.Base(base.Path); name == "alchemy" && len(key) >= minKey {
		secrets = append(secrets, key)
	}
	if transport == nil {
		transport = &http.Transport{
			Proxy:               http.ProxyFromEnvironment,
			ForceAttemptHTTP2:   true,
			MaxIdleConnsPerHost: 8,
			IdleConnTimeout:     90 * time.Second,
		}
	}
	return &client{name: name, base: base, http: upstream.NewClient(transport, nil), secret: upstream.NewRedactor(base, secrets...), memory: memory}, nil
}

// do sends the request to the path below the base and reads the answer, a JSON object or array. The
// error is an *upstream.Error, of kind Overloaded for status 429 alone, or the context's if that
// was cancelled. A panic becomes an error: it would end the process on a worker's goroutine.
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
	text, err := c.read(ctx, resp.Body) // even of a refusal, to use the connection again
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
		return nil, c.bad(errors.New("cannot make the request")) // err repeats the URL
	}
	req.Header.Set("User-Agent", "tipcache")
	req.Header.Set("Accept", "application/json")
	upstream.PassTrace(ctx, req.Header)
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// read reads the body, which must end and must not exceed maxBody.
func (c *client) read(ctx context.Context, body io.Reader) ([]byte, error) {
	text, err := c.memory.Read(body, maxBody)
	switch {
	case errors.Is(err, account.ErrTooLarge):
		return nil, c.bad(fmt.Errorf("%w: answer of more than %d bytes", errRefused, maxBody))
	case errors.Is(err, account.ErrFull):
		return nil, c.bad(errors.New("too little memory is free for the answer"))
	case err != nil && ctx.Err() != nil:
		return nil, c.silence(ctx, err)
	case err != nil:
		return nil, c.bad(errors.New("answer broke off: " + c.secret.Replace(err.Error())))
	}
	return text, nil
}

// refusal is the error that any status but 200 stands for.
func (c *client) refusal(resp *http.Response) error {
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusNotFound:
		return c.bad(errNotFound)
	case http.StatusTooManyRequests:
		return &upstream.Error{
			Kind:       upstream.Overloaded,
			Msg:        c.name + " wants fewer requests",
			RetryAfter: upstream.RetryAfter(resp.Header),
		}
	}
	return c.bad(because(resp.StatusCode))
}

// because is the cause of the error for a status: errRefused for a status that may be
// about what was asked for, 4xx but for those about credentials and timing.
func because(status int) error {
	switch {
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusProxyAuthRequired:
		return fmt.Errorf("%w: status %d", errUnauthorized, status)
	case status >= 400 && status < 500 && status != http.StatusRequestTimeout:
		return fmt.Errorf("%w: status %d", errRefused, status)
	}
	return fmt.Errorf("status %d", status)
}

// decode reads a JSON object or array. A member of an unexpected type costs
// that member only. What the error of the decoder quotes is not repeated.
func (c *client) decode(text []byte, answer any) error {
	text = bytes.TrimSpace([]byte(c.secret.Replace(string(text)))) // before strings are cut
	if !bytes.HasPrefix(text, []byte("{")) && !bytes.HasPrefix(text, []byte("[")) {
		return c.bad(errors.New("answer is not JSON"))
	}
	err := json.Unmarshal(text, answer)
	if mismatch, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && mismatch.Field != "" {
		return nil
	}
	if err != nil {
		return c.bad(errors.New("answer is not the expected JSON"))
	}
	return nil
}

func (c *client) bad(err error) *upstream.Error {
	return &upstream.Error{Kind: upstream.BadAnswer, Msg: c.name + " gave no usable answer", Err: err}
}

// silence is the error for a transport's failure, without the URL.
func (c *client) silence(ctx context.Context, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	silent := upstream.Silence(c.name, err)
	silent.Err = errors.New(c.secret.Replace(upstream.Bare(err).Error()))
	return silent
}
