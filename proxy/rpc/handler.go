package rpc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/time/rate"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/node"
)

// Options configure a Handler. Posting and AwaitItem are required.
type Options struct {
	Settings
	State   state.Options   // how values of the state are read
	Posting *blocks.Posting // shared with the other interfaces
	// AwaitItem waits until the query of a feed finds its item, here a transaction. values has the values of the parameter
	// "wait", which is the longest wait.
	AwaitItem func(r *web.Request, feed func(*web.Request) (web.Feed, error), access string, values []string) error
}

// MaxBatch is the maximum number of calls in a batch. CosmJS sends 20, more than nodes accept.
const MaxBatch = 100

// Handler answers the RPC. It owns no goroutine.
type Handler struct {
	o        Options
	methods  map[string]*method
	refusals rate.Sometimes // bounds the log lines about refused methods
	passed   *limits.Places // limits the calls of Options.Methods
	reader   *blocks.Reader
	kinds    map[blocks.Class]*blocks.Kind
	values   *state.Values
	slow     *limits.Places
	engine   *web.Engine
	handler  http.Handler
}

// New returns a handler. No other interface may use the reader.
func New(o Options, r *blocks.Reader) *Handler {
	d := &Handler{
		methods: withPassed(o.Methods), refusals: rate.Sometimes{Interval: time.Minute},
		passed: r.Stack.Admission.NewPlaces("call methods that this server does not know"),
		o:      o, reader: r, kinds: map[blocks.Class]*blocks.Kind{},
		slow: r.Stack.Admission.NewWaiters(),
	}
	for _, class := range []blocks.Class{blocks.Live, blocks.Block, blocks.Found, blocks.Latest, blocks.Never} {
		d.kinds[class] = r.Add(&blocks.Kind{Name: "rpc " + string(class), Class: class, Headers: func(*cache.Entry, string) blocks.ResponseHeaders {
			return blocks.ResponseHeaders{Vary: varyOn, NoHeight: class.Fixed()}
		}})
	}
	d.values = state.New(o.State, r, d.kinds[blocks.Live], d.kinds[blocks.Found], state.RPC)
	calls := web.Route{Name: "rpc", Keyed: r.Keyed(), Serve: d.serve, Render: Render}
	d.engine = r.Stack.NewEngine(nil, func(*web.Request) web.Route { return calls }) // the path names the method, and every HTTP method calls it
	d.handler = d.engine.Handler()
	return d
}

// varyOn lists the request headers that select between the responses of a URI.
const varyOn = respond.HeightHeader + ", " + respond.MinHeightHeader

// ServeHTTP answers a request.
func (d *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { d.handler.ServeHTTP(w, r) }

// serve answers the calls of a request. A URI may have a body, too: a form.
func (d *Handler) serve(r *web.Request) error {
	var body []byte
	name := strings.TrimPrefix(r.URL.Path, "/")
	if isKnown := name == "" || d.methods[name] != nil; isKnown && r.ContentLength != 0 {
		held := d.reader.Stack.HoldBody(&r.Record.Client)
		defer held.Release()
		var err error
		if body, err = held.ReadRequest(r.Writer, r.Request, d.o.Posting.MaxBody); err != nil {
			return failure.OfBody(err)
		}
	}
	switch {
	case name != "":
		if body != nil {
			r.Body = io.NopCloser(bytes.NewReader(body))
		}
		return d.serveURI(r, name)
	case len(body) == 0:
		return d.list(r)
	default:
		return d.servePost(r, body)
	}
}

// evmMethod matches the methods of execution clients, whose address clients confuse with this one.
var evmMethod = regexp.MustCompile(`^(eth|net|web3|debug|trace|txpool)_`)

// noMethod returns the answer to a call of an unknown method.
func noMethod(name string) []byte {
	if evmMethod.MatchString(name) {
		return jsonrpc.Error(jsonrpc.NoMethod, web.Short(name)+" is a method of execution clients, and this address has the RPC of CometBFT")
	}
	return jsonrpc.MethodNotFound
}

// parse returns the call to answer, or nil if parameters are missing.
func (d *Handler) parse(c jsonrpc.Call, hs web.Heights) *pendingCall {
	m := d.methods[c.Method]
	if m == nil {
		d.logRefusal(c.Method)
		return &pendingCall{member: noMethod(c.Method)}
	}
	k := &pendingCall{call: &call{d: d, m: m, heights: hs}}
	switch {
	case m.cost == node.Unknown:
		if k.call.rawParams = c.Params; k.call.rawParams == nil {
			k.call.rawParams = json.RawMessage("{}")
		}
		return k
	case len(c.Params) == 0 && len(m.params) > 0:
		return nil
	case m.waits:
		k.wait, c.Params = takeWait(c.Params)
	}
	var ok bool
	if k.call.a, ok = m.read(c.Params); !ok {
		k.call.a, k.call.rawParams = make(arguments, len(m.params)), c.Params
	}
	return k
}

// admit applies the access rules to a call: to its method, and to the path of abci_query, which may be a gRPC
// method, whose message may have another path.
func (k *pendingCall) admit(r *web.Request) error {
	if k.call == nil {
		return nil
	}
	stack := k.call.d.reader.Stack
	if err := stack.AdmitOperation(r, k.call.m.name); err != nil || k.call.m.name != abciQuery {
		return err
	}
	if k.call.isRaw() { // the node may find a denied path in the parameters
		if stack.Admission.Limits.Load().Restricts() {
			return failure.BadInput("the parameters of abci_query cannot be read")
		}
		return nil
	}
	path := unquoted(k.call.a.get(k.call.m, "path"))
	if err := stack.AdmitOperation(r, state.Operation(path)); err != nil {
		return err
	}
	return state.AdmitInner(stack, r, path, k.call.message())
}

// Render renders the failure of a request: of its only call, or of the request as a whole.
func Render(r *web.Request, h http.Header, f *failure.Failure) (status int, typ string, body []byte) {
	f.SetAdvice(h)
	id := jsonrpc.NoID
	if of := new(callError); errors.As(f, &of) {
		id = of.id
	} else if unread := idInBody(r); unread != nil {
		id = unread
	}
	return f.Status, respond.JSON, jsonrpc.AppendAnswer(nil, id, memberOf(f))
}

// maxUnread is the maximum length of the body of a refused request, in bytes, in which its id is looked for.
const maxUnread = 4 << 10

// idInBody returns the id of the only call in the body of a request that was refused before its body was read; nil for none. The
// body of a client that waits for "100 Continue" is not read.
func idInBody(r *web.Request) json.RawMessage {
	if r.URL.Path != "/" || r.ContentLength <= 0 || r.ContentLength > maxUnread || r.Header["Expect"] != nil {
		return nil
	}
	body, _ := io.ReadAll(io.LimitReader(r.Body, maxUnread)) // part of a body has no call
	c, _ := jsonrpc.Read(body)
	return c.ID
}

// callError is the error of the only call of a request.
type callError struct {
	id json.RawMessage
	error
}

func (e *callError) Unwrap() error { return e.error }

// failureOf returns the failure of the only call of a request.
func failureOf(c jsonrpc.Call, err error) *failure.Failure {
	f := *failure.Of(err)
	f.Err = &callError{c.ID, err}
	return &f
}

// memberOf returns the error member for a failure.
func memberOf(f *failure.Failure) []byte {
	switch f.Status {
	case http.StatusBadRequest:
		return jsonrpc.Error(jsonrpc.InvalidParams, f.Public)
	case http.StatusForbidden:
		return jsonrpc.Error(jsonrpc.NoMethod, f.Public)
	}
	return jsonrpc.Error(jsonrpc.ServerError, f.Public)
}

// list answers a request without a method with the node's page of methods and parameters, including those of
// sockets.
func (d *Handler) list(r *web.Request) error {
	targets := []string{"subscribe?query=_", "unsubscribe?query=_", "unsubscribe_all?"}
	for name, m := range d.methods {
		if rule := d.reader.Stack.Admission.Limits.Load().Rule(name); rule != nil && rule.Deny {
			continue
		}
		var params []string
		for _, p := range m.params {
			params = append(params, p.name+"=_")
		}
		targets = append(targets, name+"?"+strings.Join(params, "&"))
	}
	slices.Sort(targets) // by name; a digit is below the question mark, so foo2 comes before foo
	base := "/"
	if web.IsHost(r.Host) {
		base = "//" + r.Host + "/"
	}
	page := []byte("<html><body><br>Available endpoints:<br><br>Endpoints that require arguments:<br>")
	for _, target := range targets {
		page = fmt.Appendf(page, `<a href="%s%s">%[1]s%[2]s</a></br>`, base, target)
	}
	r.Send(http.StatusOK, "text/html", append(page, "</body></html>"...))
	return nil
}
