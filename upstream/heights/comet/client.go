// Package comet is a client for the part of CometBFT's RPC that tells of a
// node's newest block.
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
	"github.com/tipcache/tipcache/upstream/transport"
)

const (
	maxRPC    = 2 * time.Second // for one call, so that a stuck one does not hold up the headers
	maxStatus = time.Second     // for /status, which a node that is well answers at once
	maxRead   = 1 << 20         // bytes of a reply or a message; a header has 1.2 KB
	maxIdle   = 32              // connections kept for the next calls
)

// A Client speaks with one node's CometBFT RPC.
type Client struct {
	Outage *upstream.Outage // records the outcomes of calls, except of Ask and Get, which their callers judge

	base    *url.URL
	http    *http.Client
	timeout time.Duration
	hide    *strings.Replacer // what in base may be a key
	memory  *account.Part     // of answers; nil: no limit
}

// New makes a client of the RPC server at a base URL, which is sent headers with every request. A call takes timeout at
// most, and two seconds at most; idle connections are dropped after idleClose. Answers are read within
// memory; nil means no limit.
func New(base *url.URL, headers http.Header, timeout, idleClose time.Duration, memory *account.Part, outage *upstream.Outage) *Client {
	timeout = min(timeout, maxRPC)
	hide := upstream.NewRedactor(base, upstream.HeaderValues(headers)...)
	return &Client{Outage: outage, base: base, timeout: timeout, hide: hide, memory: memory, http: upstream.NewClient(upstream.WithHeaders(transport.New(base, transport.Options{
		Dial: timeout, Idle: idleClose, MaxIdle: maxIdle,
	}), headers), hide)}
}

// A Refusal is an error that CometBFT answered with.
type Refusal struct {
	Code    int64  `json:"code"`
	Message string `json:"message"`
	Data    string `json:"data"`
}

// Error joins what the node says.
func (e *Refusal) Error() string { return e.Message + ": " + e.Data }

// ofNode reports whether the node itself refused, and not a server in front of it, by the codes that
// CometBFT has.
func (e *Refusal) ofNode() bool {
	return e.Code == -32700 || e.Code >= -32603 && e.Code <= -32600 || e.Code == -32000
}

// closing is what a node that shuts down says of its databases, which it closes before its RPC.
var closing = regexp.MustCompile(`(?:^|[:,] )(?:leveldb|pebble): closed(?:$|: panic$| \(latest height: [0-9]+\)(?:$|: not found$))`)

// Closing tells whether a node says by an error that it shuts down.
func Closing(text string) bool { return closing.MatchString(text) }

// A Status is what is used of /status.
type Status struct {
	ChainID    string
	Height     int64     // of the newest block the node has: up to half a second ahead of what can be read
	Time       time.Time // of that block's header
	Earliest   int64     // oldest block the node has
	CatchingUp bool      // the node is behind its peers
	TxIndex    string    // on or off: whether transactions are found; "" where it does not say
	NoEvents   error     // why events cannot be read from this release; nil where they can
}

// eventsSince is the first minor release of CometBFT 0 whose events carry what BeginBlock and EndBlock have emitted.
const eventsSince = 38

// noEvents returns why events cannot be read from a release of CometBFT. A version in another form is taken for a newer one.
func noEvents(version string) error {
	var major, minor int
	if n, _ := fmt.Sscanf(strings.TrimPrefix(version, "v"), "%d.%d.", &major, &minor); n < 2 || major > 0 || minor >= eventsSince {
		return nil
	}
	return fmt.Errorf("CometBFT %d.%d has no events that can be read, 0.%d and later have", major, minor, eventsSince)
}

// Status asks for /status, which is answered at once even while the execution client hangs.
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
	ctx, cancel := context.WithTimeout(ctx, maxStatus)
	defer cancel()
	if err := c.call(ctx, "status", nil, maxRead, &s); err != nil {
		return Status{}, err
	}
	if s.NodeInfo.Network == "" {
		return Status{}, errors.New("/status names no chain")
	}
	i := s.SyncInfo
	return Status{s.NodeInfo.Network, i.Latest, i.LatestTime, i.Earliest, i.CatchingUp, s.NodeInfo.Other.TxIndex, noEvents(s.NodeInfo.Version)}, nil
}

// Committed is the newest height that can be read, of /abci_info.
func (c *Client) Committed(ctx context.Context) (int64, error) {
	var info struct {
		Response struct {
			Height int64 `json:"last_block_height,string"`
		} `json:"response"`
	}
	err := c.call(ctx, "abci_info", nil, maxRead, &info)
	return info.Response.Height, err
}

// Hash is the hash of a block, from the header of the next one.
func (c *Client) Hash(ctx context.Context, height int64) (string, error) {
	var reply struct {
		Header Header `json:"header"`
	}
	err := c.call(ctx, "header", atHeight(height+1), maxRead, &reply)
	if err == nil && (reply.Header.Height != height+1 || reply.Header.Last.Hash == "") {
		err = fmt.Errorf("/header of block %d names no hash before it", height+1)
	}
	return reply.Header.Last.Hash, err
}

// CloseIdle closes the connections that are not in use.
func (c *Client) CloseIdle() { c.http.CloseIdleConnections() }

// atHeight is the parameter of a method that reads one block. CometBFT takes numbers as text.
func atHeight(height int64) map[string]string {
	return map[string]string{"height": strconv.FormatInt(height, 10)}
}

// call decodes into result what Call returns within the client's timeout.
func (c *Client) call(ctx context.Context, method string, params map[string]string, most int64, result any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	reply, err := c.Call(ctx, method, params, most)
	if err == nil {
		err = json.Unmarshal(reply, result)
	}
	return err
}

// Call calls a method, and returns its result of at most so many bytes, without white space. What
// the node refuses is a *[Refusal]. It takes the deadline from ctx.
//
// Calls are POSTs: not every node answers a URI with a JSON-RPC envelope.
func (c *Client) Call(ctx context.Context, method string, params any, most int64) (result json.RawMessage, err error) {
	status, _, body, err := c.exchange(ctx, http.MethodPost, "/", request(method, params), most)
	if err == nil {
		if err = decode(body, &result); err != nil {
			err = fmt.Errorf("%s: status %d: %w", method, status, upstream.RedactError(err, c.hide))
		}
	}
	c.note(err)
	return result, err
}

// note records for the outage how a call went. Whatever the node itself refuses has completed.
func (c *Client) note(err error) {
	switch refusal, ok := errors.AsType[*Refusal](err); {
	case errors.Is(err, context.Canceled): // the caller's end says nothing about the node
	case ok && refusal.ofNode():
		c.Outage.End()
	default:
		c.Outage.Note(err)
	}
}

// A Reply is an answer to a call, as the server wrote it: a result or an error. The server may be another one than the
// node, such as a provider's that limits the rate.
type Reply struct {
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`

	Status     int           `json:"-"` // of HTTP
	RetryAfter time.Duration `json:"-"` // that the server names; 0 for none
}

// Answers reports whether the reply carries the id of the call.
func (r *Reply) Answers() bool { return string(r.ID) == callID }

// ErrNoReply is the error for an answer that is no reply of JSON-RPC to the call.
var ErrNoReply = errors.New("no reply of JSON-RPC to the call")

// Ask calls a method by POST with parameters as JSON, and returns the reply of at most so many bytes, also where it is an
// error. It takes the deadline from ctx. With an error, the reply has the status and when to try again.
func (c *Client) Ask(ctx context.Context, method string, params json.RawMessage, most int64) (reply Reply, err error) {
	status, header, body, err := c.exchange(ctx, http.MethodPost, "/", request(method, params), most)
	if err != nil {
		return reply, upstream.RedactError(err, c.hide)
	}
	if err = json.Unmarshal(body, &reply); err == nil && reply.Error == nil && (reply.Result == nil || !reply.Answers()) {
		err = errors.New("neither a result with the id nor an error")
	}
	if err != nil {
		err = fmt.Errorf("status %d: %w: %w", status, ErrNoReply, err)
	}
	reply.Status, reply.RetryAfter = status, upstream.RetryAfter(header)
	return reply, upstream.RedactError(err, c.hide)
}

// Get asks for a target, such as /block?height=5, and returns the answer of at most so many bytes.
func (c *Client) Get(ctx context.Context, target string, most int64) (status int, header http.Header, body []byte, err error) {
	status, header, body, err = c.exchange(ctx, http.MethodGet, target, nil, most)
	return status, header, body, upstream.RedactError(err, c.hide)
}

// Redact hides in a text of the server what may be a key in the client's URL.
func (c *Client) Redact(text string) string { return c.hide.Replace(text) }

// exchange sends a request and reads the whole answer, of at most so many bytes. One that
// has reached the node is not sent again: net/http does so by itself only where nothing was written.
func (c *Client) exchange(ctx context.Context, method, target string, body []byte, most int64) (status int, header http.Header, answer []byte, err error) {
	r, err := http.NewRequestWithContext(ctx, method, c.base.String()+target, bytes.NewReader(body))
	if err != nil {
		return 0, nil, nil, upstream.Bare(err)
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	upstream.PassTrace(ctx, r.Header)
	response, err := c.http.Do(r)
	if err != nil {
		return 0, nil, nil, upstream.Bare(err)
	}
	defer response.Body.Close()
	answer, err = c.memory.ReadSized(response.Body, response.ContentLength, most)
	return response.StatusCode, response.Header, answer, err
}

// callID is the id of every call: each has a request of its own.
const callID = "1"

// request returns a call of JSON-RPC. Parameters in JSON are copied once, as they may be long.
func request(method string, params any) []byte {
	name, _ := json.Marshal(method) // texts and numbers always encode
	text, isJSON := params.(json.RawMessage)
	if !isJSON || text == nil {
		text, _ = json.Marshal(params)
	}
	return slices.Concat([]byte(`{"id":`+callID+`,"jsonrpc":"2.0","method":`), name, []byte(`,"params":`), text, []byte("}"))
}

// decode reads a JSON-RPC reply.
func decode(data []byte, result any) error {
	var reply struct {
		Result json.RawMessage `json:"result"`
		Error  *Refusal        `json:"error"`
	}
	switch err := json.Unmarshal(data, &reply); {
	case err != nil:
		return err
	case reply.Error != nil:
		return reply.Error
	case reply.Result == nil:
		return errors.New("reply without a result")
	}
	return json.Unmarshal(reply.Result, result)
}
