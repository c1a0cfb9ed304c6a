package evm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"time"
	"unsafe"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
)

// client speaks JSON-RPC over HTTP with one endpoint. Calls that are made
// together go in one batch, which the same server answers.
type client struct {
	url     string
	http    *http.Client
	secret  *strings.Replacer // hides what may be a key
	timeout time.Duration
	maxBody int64
	memory  *account.Part // of answers; nil means no limit
}

// A Call is one of a batch.
type Call struct {
	Method string
	Params []any
}

// each makes the calls and returns the answer to each. The error is a *Failure of
// the batch, with the answers that came in spite of it, or that of ctx.
func (c *client) each(ctx context.Context, timeout time.Duration, calls ...Call) ([]Answer, error) {
	body, err := c.post(ctx, timeout, calls)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	return c.sortAnswers(body, len(calls))
}

// post exchanges bodies.
func (c *client) post(ctx context.Context, timeout time.Duration, calls []Call) (answer string, err error) {
	ctx, span := upstream.StartSpan(ctx, "evm.request")
	defer func() { upstream.EndSpan(span, err) }()
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, err := json.Marshal(requests(calls))
	if err != nil {
		return "", err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url, bytes.NewReader(body))
	if err != nil {
		return "", c.silence(err)
	}
	req.Header.Set("Content-Type", "application/json")
	upstream.PassTrace(ctx, req.Header)
	resp, err := c.http.Do(req)
	if err != nil {
		return "", c.silence(err)
	}
	defer resp.Body.Close()
	text, err := c.memory.Read(resp.Body, c.maxBody)
	answer = unsafe.String(unsafe.SliceData(text), len(text)) // gjson wants a string, and many megabytes are not copied for that
	switch {
	case resp.StatusCode != http.StatusOK:
		return "", c.statusFailure(resp, answer)
	case errors.Is(err, account.ErrTooLarge):
		return "", Refusal("its answer is larger than %d bytes", c.maxBody)
	case errors.Is(err, account.ErrFull):
		return "", Refusal("its answer is larger than the memory that is free")
	case err != nil:
		return "", c.silence(err)
	}
	return answer, nil
}

type request struct {
	Version string `json:"jsonrpc"`
	ID      int    `json:"id"`
	Method  string `json:"method"`
	Params  []any  `json:"params"`
}

// requests is the body for the calls. One goes without a batch, which some endpoints do not know.
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

// silence is the failure of the transport, without the URL: it may hold a key.
func (c *client) silence(err error) *Failure {
	return &Failure{Reason: Silent, err: upstream.RedactError(upstream.Bare(err), c.secret)}
}
