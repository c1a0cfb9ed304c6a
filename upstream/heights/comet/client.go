// Package comet is a client for CometBFT's RPC server.
package comet

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/jsontext"
	"github.com/tipcache/tipcache/upstream/transport"
)

const (
	maxTimeout    = 2 * time.Second // for one call, so that a stuck one does not delay the headers
	statusTimeout = time.Second     // for /status, which a healthy node answers at once
	maxRead       = 1 << 20         // bytes of a reply or a message; a header has 1.2 KB
	maxIdle       = 32              // idle connections
)

// A Client calls one node's CometBFT RPC server.
type Client struct {
	Outage *upstream.Outage // records the outcomes of calls, except those of CallRaw and Get, whose callers record them

	base    *url.URL
	http    *http.Client
	timeout time.Duration
	hide    *strings.Replacer // redacts parts of base that may be keys
	memory  *account.Part     // budget of responses; nil means no limit
}

// New returns a client of the RPC server at a base URL. It sends headers with every request. A call takes at most timeout
// and at most two seconds. Idle connections are closed after idleClose. memory is the budget of responses, nil means
// no limit.
func New(base *url.URL, headers http.Header, timeout, idleClose time.Duration, memory *account.Part, outage *upstream.Outage) *Client {
	timeout = min(timeout, maxTimeout)
	hide := upstream.NewRedactor(base, upstream.HeaderValues(headers)...)
	return &Client{Outage: outage, base: base, timeout: timeout, hide: hide, memory: memory, http: upstream.NewClient(transport.New(base, transport.Options{
		Dial: timeout, Idle: idleClose, MaxIdle: maxIdle,
	}), headers, hide)}
}

// A Refusal is an error response of CometBFT.
type Refusal struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
	Data    string `json:"data"`
}

// Error returns the node's message and data.
func (e *Refusal) Error() string { return e.Message + ": " + e.Data }

// JSON-RPC codes of CometBFT for calls that fail.
const (
	NoMethod      = -32601
	InternalError = -32603
	ServerError   = -32000
)

// IsOwnCode reports whether a JSON-RPC code is one of CometBFT's: that of a failed call, of an invalid one, or of invalid JSON.
func IsOwnCode(code int64) bool {
	return code == -32700 || InternalError <= code && code <= -32600 || code == ServerError
}

// shutdownError matches the errors of a node that shuts down: it closes its databases before its RPC server.
var shutdownError = regexp.MustCompile(`(?:^|[:,] )(?:leveldb|pebble): closed(?:$|: panic$| \(latest height: [0-9]+\)(?:$|: not found$))`)

// IsShutdownError reports whether an error text shows that the node is shutting down.
func IsShutdownError(text string) bool { return shutdownError.MatchString(text) }

// A Status is the used part of /status.
type Status struct {
	ChainID    string
	Height     int64     // newest block, which can be read up to half a second later
	Time       time.Time // of that block's header
	Earliest   int64     // oldest block
	CatchingUp bool      // the node is behind its peers
	TxIndex    string    // on or off: whether transactions are indexed; "" if unknown
	Version    string    // of CometBFT, such as 0.38.19; "" if unknown
	NoEvents   error     // why this release provides no usable events; nil if it does
}

// eventsSince is the first minor release of CometBFT 0 whose events include those of BeginBlock and EndBlock.
const eventsSince = 38

// noEvents returns why a release of CometBFT provides no usable events, or nil. A version in an unknown form counts as newer.
func noEvents(version string) error {
	var major, minor int
	if n, _ := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d.", &major, &minor); n < 2 || major > 0 || minor >= eventsSince {
		return nil
	}
	return fmt.Errorf("CometBFT %d.%d provides no usable events, version 0.%d or later is required", major, minor, eventsSince)
}

// Status reads /status, which a node answers at once even while its execution client hangs.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s struct {
		NodeInfo struct {
			Network string `json:"network"`
			Version string `json:"version"`
			Other   struct {
				TxIndex string `json:"tx_index"`
			} `json:"other"`
		} `json:"node_info"`
		SyncInfo struct {
			Latest     int64     `json:"latest_block_height,string"`
			LatestTime time.Time `json:"latest_block_time"`
			Earliest   int64     `json:"earliest_block_height,string"`
			CatchingUp bool      `json:"catching_up"`
		} `json:"sync_info"`
	}
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	if err := c.call(ctx, "status", nil, maxRead, &s); err != nil {
		return Status{}, err
	}
	if s.NodeInfo.Network == "" {
		return Status{}, errors.New("/status names no chain")
	}
	i, n := s.SyncInfo, s.NodeInfo
	return Status{
		c.Redact(n.Network), i.Latest, i.LatestTime, i.Earliest, i.CatchingUp, c.Redact(n.Other.TxIndex), c.Redact(n.Version), noEvents(n.Version),
	}, nil
}

// Committed returns the newest height that can be read, from /abci_info.
func (c *Client) Committed(ctx context.Context) (int64, error) {
	var info struct {
		Response struct {
			Height int64 `json:"last_block_height,string"`
		} `json:"response"`
	}
	err := c.call(ctx, "abci_info", nil, maxRead, &info)
	return info.Response.Height, err
}

// Hash returns the hash of a block from the header of the next one.
func (c *Client) Hash(ctx context.Context, height int64) (string, error) {
	var reply struct {
		Header Header `json:"header"`
	}
	err := c.call(ctx, "header", atHeight(height+1), maxRead, &reply)
	if err == nil && (reply.Header.Height != height+1 || reply.Header.Last.Hash == "") {
		err = fmt.Errorf("/header of block %d has no parent hash", height+1)
	}
	if err != nil {
		return "", err
	}
	return reply.Header.Last.Hash, nil
}

// CloseIdle closes idle connections.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// atHeight returns the parameter height. CometBFT expects numbers as text.
func atHeight(height int64) map[string]string {
	return map[string]string{"height": strconv.FormatInt(height, 10)}
}

// call calls Call with the client's timeout and decodes its result.
func (c *Client) call(ctx context.Context, method string, params map[string]string, maxBytes int64, result any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	reply, err := c.Call(ctx, method, params, maxBytes)
	if err == nil {
		err = json.Unmarshal(reply, result)
	}
	return err
}

// Call calls a method that only reads and returns its result, without the white space around it. The reply may have maxBytes
// bytes. If the node refuses, the error is a *[Refusal]. ctx sets the deadline.
//
// Calls are POSTs: not every node answers a URI with a JSON-RPC envelope.
func (c *Client) Call(ctx context.Context, method string, params any, maxBytes int64) (result json.RawMessage, err error) {
	status, _, body, err := c.exchange(ctx, http.MethodPost, "/", Request(method, params), true, maxBytes)
	if err == nil {
		if result, err = Result(body); err != nil {
			err = fmt.Errorf("%s: status %d: %w", method, status, upstream.RedactError(err, c.hide))
		}
	}
	c.recordOutcome(err)
	return result, err
}

// recordOutcome records the outcome of a call for the outage. A refusal of the node itself ends an outage.
func (c *Client) recordOutcome(err error) {
	switch refusal, ok := errors.AsType[*Refusal](err); {
	case errors.Is(err, context.Canceled): // the caller's cancellation says nothing about the node
	case ok && IsOwnCode(refusal.Code):
		c.Outage.End()
	default:
		c.Outage.Record(err)
	}
}

// A Reply is a server's reply to a call: a result or an error. It may come from a server in front of the node, such as a
// provider's rate limiter.
type Reply struct {
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`

	Status     int           `json:"-"` // HTTP status
	RetryAfter time.Duration `json:"-"` // from the response header; 0 if absent
}

// UnmarshalJSON implements [json.Unmarshaler]. An error of null is none.
func (r *Reply) UnmarshalJSON(text []byte) error {
	type plain Reply
	err := json.Unmarshal(text, (*plain)(r))
	if string(r.Error) == "null" {
		r.Error = nil
	}
	return err
}

// Answers reports whether the reply carries the id of the call.
func (r *Reply) Answers() bool { return string(r.ID) == callID }

// ErrNoReply is the error for a response that is not a JSON-RPC reply to the call.
var ErrNoReply = errors.New("response is not a JSON-RPC reply to the call")

// CallRaw calls a method with parameters in JSON and returns the reply of at most maxBytes bytes, even if it is an error
// reply. reads means that the call only reads, so it may be sent again. ctx sets the deadline. With an error, only Status and
// RetryAfter may be used. They are 0 if there was no response.
func (c *Client) CallRaw(ctx context.Context, method string, params json.RawMessage, reads bool, maxBytes int64) (reply Reply, err error) {
	if params != nil && !jsontext.Valid(params) { // it could contain another method
		return reply, fmt.Errorf("the parameters of %s are not JSON", method)
	}
	status, header, body, err := c.exchange(ctx, http.MethodPost, "/", Request(method, params), reads, maxBytes)
	if err != nil {
		return reply, upstream.RedactError(err, c.hide)
	}
	if err = json.Unmarshal(body, &reply); err == nil && reply.Error == nil && (reply.Result == nil || !reply.Answers()) {
		err = errors.New("it has neither a result with the call's id nor an error")
	}
	if err != nil {
		err = fmt.Errorf("status %d: %w: %w", status, ErrNoReply, err)
	}
	reply.Status, reply.RetryAfter = status, upstream.RetryAfter(header)
	return reply, upstream.RedactError(err, c.hide)
}

// Get sends a GET request for a target such as /block?height=5 and returns the response of at most maxBytes bytes.
func (c *Client) Get(ctx context.Context, target string, maxBytes int64) (status int, header http.Header, body []byte, err error) {
	status, header, body, err = c.exchange(ctx, http.MethodGet, target, nil, true, maxBytes)
	return status, header, body, upstream.RedactError(err, c.hide)
}

// Redact hides possible keys of the client's URL in a text from the server.
func (c *Client) Redact(text string) string { return c.hide.Replace(text) }

// exchange sends a request and reads the whole response of at most maxBytes bytes. The transport repeats a read if the server
// has closed an idle connection.
func (c *Client) exchange(ctx context.Context, method, target string, body []byte, reads bool, maxBytes int64) (status int, header http.Header, responseBody []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base.String()+target, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, upstream.Bare(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if reads {
		upstream.MarkRepeatable(r)
	}
	response, err := c.http.Do(r)
	if err != nil {
		return 0, nil, nil, upstream.Bare(err)
	}
	defer response.Body.Close()
	responseBody, err = c.memory.Read(response.Body, response.ContentLength, maxBytes)
	return response.StatusCode, response.Header, responseBody, err
}

// callID is the id of every call. Each call has an HTTP request of its own, so ids need not differ.
const callID = "1"

// Request returns the body of a JSON-RPC call. It copies JSON parameters only once, as they may be long.
func Request(method string, params any) []byte {
	name, _ := json.Marshal(method) // strings always encode
	text, isJSON := params.(json.RawMessage)
	if !isJSON || text == nil {
		text, _ = json.Marshal(params)
	}
	return slices.Concat([]byte(`{"id":`+callID+`,"jsonrpc":"2.0","method":`), name, []byte(`,"params":`), text, []byte("}"))
}

// Result returns the result of a JSON-RPC reply. If the node refuses the call, the error is a *[Refusal].
func Result(data []byte) (json.RawMessage, error) {
	var reply struct {
		Result json.RawMessage `json:"result"`
		Error  *Refusal        `json:"error"`
	}
	switch err := json.Unmarshal(data, &reply); {
	case err != nil:
		return nil, err
	case reply.Error != nil:
		return nil, reply.Error
	case reply.Result == nil:
		return nil, errors.New("reply has no result")
	}
	return reply.Result, nil
}
