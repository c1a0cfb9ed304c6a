package rpc

import (
	"bytes"
	"cmp"
	"encoding/json"
	"net/http"

	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/rpc/jsonrpc"
	"github.com/tipcache/tipcache/proxy/rpc/socket"
	"github.com/tipcache/tipcache/proxy/web"
)

const socketPath = "/websocket"

// NewSocket returns the handler of /websocket, and mounts it. It must be called before the first request. It sets
// Methods, Stack and Keyed of the options.
func (d *Handler) NewSocket(o socket.Options) *socket.Handler {
	o.Methods, o.Stack, o.Keyed = d, d.reader.Stack, d.reader.Keyed()
	h := socket.New(o)
	route := web.Route{Name: "rpc websocket", Keyed: d.reader.Keyed(), Render: Render, Serve: func(r *web.Request) error {
		return h.Serve(r.Writer, r.Request)
	}}
	d.engine.Handle(socketPath, func(*web.Request) web.Route { return route })
	return h
}

// Call counts, limits and answers a call that arrived over a socket.
func (d *Handler) Call(from *http.Request, name string, params json.RawMessage) (a socket.Answer) {
	k := cmp.Or(refuseWait(d.parse(jsonrpc.Call{Method: name, Params: params}, web.Heights{})), &pendingCall{})
	serve := func(r *web.Request) (int, error) {
		a.Height = 0 // of an earlier answer
		if d.run(r, []*pendingCall{k}, nil); k.answer != nil {
			d.reader.Show(&r.Record, k.answer)
			if k.query.Pinned == 0 && !k.query.Kind.Class.Fixed() {
				a.Height = k.answer.Entry.Height
			}
		}
		recordFailures(r, k)
		a.Member = k.member
		return len(a.Member), k.err
	}
	end := func(err error) socket.Answer {
		if err != nil {
			a.Member = memberOf(failure.Of(err))
		}
		a.Member = socketMember(a.Member)
		if a.Release, err = d.reader.Stack.HoldResponse(from, len(a.Member)); err != nil {
			if err = k.dropAnswer(err); err != nil {
				k.member = memberOf(failure.Of(err))
			}
			a.Member = k.member
		}
		return a
	}
	return end(d.message(from, d.routeOf(name), func(r *web.Request) (int, error) {
		if err := k.admit(r); err != nil {
			return 0, err
		}
		a.Again = func() socket.Answer { return end(d.reader.Stack.Repeat(r, serve)) }
		return serve(r)
	}))
}

// message counts, limits and logs a call that arrived over a socket. It checks the key that the socket was opened
// with.
func (d *Handler) message(from *http.Request, route string, serve func(*web.Request) (size int, err error)) error {
	return d.reader.Stack.Message(from, route, func(r *web.Request) (int, error) {
		if err := d.reader.AdmitCall(r); err != nil {
			return 0, err
		}
		return serve(r)
	})
}

// Subscription counts, limits and logs a call about subscriptions, or a message that names no method. The function do answers
// it.
func (d *Handler) Subscription(from *http.Request, method string, do func() (size int)) (refusal []byte) {
	route := "rpc " + method
	if method == "" {
		route = web.NoRoute
	}
	err := d.message(from, route, func(r *web.Request) (int, error) {
		if method != "" {
			if err := d.reader.Stack.AdmitOperation(r, method); err != nil {
				return 0, err
			}
		}
		return do(), nil
	})
	if err != nil {
		return memberOf(failure.Of(err))
	}
	return nil
}

// socketMember returns the member as nodes send it over a socket, where unreadable parameters are an internal
// error.
func socketMember(member []byte) []byte {
	rest, ok := bytes.CutPrefix(member, []byte(`"error":{"code":-32602,"message":"Invalid params"`))
	if !ok {
		return member
	}
	return append([]byte(`"error":{"code":-32603,"message":"Internal error"`), rest...)
}
