package evm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
)

// A client calls one endpoint by JSON-RPC over HTTP. Calls made together form one batch, which one server answers.
type client struct {
	url     string
	http    *http.Client
	secret  *strings.Replacer // hides possible keys
	timeout time.Duration
	maxBody int64
	memory  *account.Part // budget of responses; nil means no limit
}

// A Call is one call of a batch.
type Call struct {
	Method string
	Params []any
}

// call makes calls and returns their answers. The error is a *Failure of the batch, possibly with some answers, or ctx.Err().
func (c *client) call(ctx context.Context, timeout time.Duration, calls ...Call) ([]Answer, error) {
	body, err := c.post(ctx, timeout, calls)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return c.sortAnswers(body, len(calls))
}

func (c *client) post(ctx context.Context, timeout time.Duration, calls []Call) (answer []byte, err error) {
	ctx, span := upstream.StartSpan(ctx, "evm.request")
	defer func() { upstream.EndSpan(span, err) }()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, _ := json.Marshal(requests(calls)) // parameters always encode
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return nil, c.silence(err)
	}
	req.Header.Set("Content-Type", "application/json")
	upstream.MarkRepeatable(req)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.silence(err)
	}
	defer resp.Body.Close()
	answer, err = c.memory.Read(resp.Body, resp.ContentLength, c.maxBody)
	switch {
	case resp.StatusCode != http.StatusOK:
		return nil, c.statusFailure(resp, string(answer))
	case errors.Is(err, account.ErrTooLarge):
		return nil, Refusal("its response exceeds %d bytes", c.maxBody)
	case errors.Is(err, account.ErrFull):
		return nil, tooLong(err)
	case err != nil:
		return nil, c.silence(err)
	}
	return answer, nil
}

func tooLong(err error) *Failure { return Refusal("its response exceeds the free memory: %w", err) }

type request struct {
	Version string `json:"jsonrpc"`
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Params  []any  `json:"params"`
}

// requests returns the body for calls. A single call is sent without a batch, because some endpoints do not support batches.
func requests(calls []Call) any {
	all := make([]request, len(calls))
	for i, c := range calls {
		all[i] = request{"2.0", i, c.Method, append([]any{}, c.Params...)}
	}
	if len(all) == 1 {
		return all[0]
	}
	return all
}

// silence returns the failure for an error of the transport, without the URL, which may contain a key.
func (c *client) silence(err error) *Failure {
	return &Failure{Reason: Silent, err: upstream.RedactError(upstream.Bare(err), c.secret)}
}
