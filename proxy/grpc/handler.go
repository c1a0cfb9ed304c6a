package grpc

import (
	"cmp"
	"context"
	"net/http"

	"google.golang.org/grpc"

	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/state"
	"github.com/tipcache/tipcache/proxy/web"
)

// Options configure a Handler. The zero value of a field means its default.
type Options struct {
	State   state.Options                                                       // how values of the state are read
	Stream  func(ctx context.Context, method string) (grpc.ClientStream, error) // opens one to a node; nil: no node offers gRPC
	Posting *blocks.Posting                                                     // shared with the other interfaces; nil: one of the handler's own
}

// A Handler answers methods of gRPC. It owns no goroutine.
type Handler struct {
	o       Options
	reader  *blocks.Reader
	values  *state.Values
	never   *blocks.Kind
	streams *limits.Places

	life context.Context //nolint:containedctx // of streams: ends with Drain
	end  context.CancelFunc
}

// New makes a handler before a reader that no other interface uses.
func New(o Options, r *blocks.Reader) *Handler {
	o.Posting = cmp.Or(o.Posting, blocks.NewPosting(blocks.Posts{}))
	live := r.Add(&blocks.Kind{Name: "grpc live", Class: blocks.Live})
	found := r.Add(&blocks.Kind{Name: "grpc found", Class: blocks.Found})
	d := &Handler{
		o: o, reader: r, values: state.New(o.State, r, live, found, state.GRPC),
		never:   r.Add(&blocks.Kind{Name: "grpc never", Class: blocks.Never}),
		streams: r.Stack.Admission.NewPlaces("hold a stream"),
	}
	d.life, d.end = context.WithCancel(context.Background())
	return d
}

// Drain ends the streams, whose clients are told to go elsewhere.
func (d *Handler) Drain() { d.end() }

// serve has the method answer the call, of which from has the headers. The error is a status of gRPC.
func (k *call) serve(from *http.Request) error {
	m := methodOf(k.name)
	k.answer = http.Header{}
	err := k.reader.Stack.Call(from, k.answer, web.Begun{Route: m.route, Start: k.start, Place: k.again}, func(from *http.Request, rec *web.Record) (int, error) {
		k.from, k.rec = from, rec
		if err := k.reader.AdmitCall(from, k.answer, rec); err != nil {
			return 0, err
		}
		if s, ok := k.stream.(*webStream); ok {
			s.receive()
		}
		return m.serve(k)
	})
	if err != nil {
		return k.failed(err)
	}
	return k.st.Err()
}
