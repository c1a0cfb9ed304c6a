package node

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"slices"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/jsontext"
)

// The headers by which a node of the SDK tells the height it read. Errors have the second alone,
// and only if the state was asked; some versions have the second alone on everything.
const (
	toldHeight   = "X-Cosmos-Block-Height"
	toldMetadata = "Grpc-Metadata-X-Cosmos-Block-Height"
	codecHeader  = "Grpc-Metadata-Content-Type"
)

// The gRPC codes of errors that do not come from the state.
const (
	grpcUnknown       = 2
	grpcUnimplemented = 12
	grpcInternal      = 13
)

// gatewayCodes are the gRPC codes of errors that do not come from the application: the gateway does not reach it because
// the node ends or starts (14), or a server in front of the node refuses the request.
var gatewayCodes = []int64{7, 8, 10, 14, 16}

// readCosmos goes by status, code and headers: texts differ between versions and configurations.
func readCosmos(r *http.Response, body []byte, _ int64) (*Answer, bool) {
	if !jsontext.Valid(body) {
		return nil, false
	}
	a := &Answer{Status: r.StatusCode, NodeStatus: r.StatusCode, Body: body, Codec: r.Header.Get(codecHeader), Height: statedHeight(append(r.Header.Values(toldMetadata), r.Header.Values(toldHeight)...)...)}
	if r.StatusCode == http.StatusOK {
		return a, true
	}
	code := gjson.GetBytes(body, "code")
	if r.StatusCode < http.StatusBadRequest || code.Type != gjson.Number || !bytes.Contains(body, []byte(`"details"`)) {
		return nil, false
	}
	if a.Height <= 0 && slices.Contains(gatewayCodes, code.Int()) {
		return nil, false
	}
	a.Text = gjson.GetBytes(body, "message").String()
	a.Reason = cosmosReason(r.StatusCode, int(code.Int()), a.Height)
	return a, true
}

// cosmosReason is what an error means. One that tells its height is the state's answer there.
func cosmosReason(status, code int, height int64) Reason {
	switch {
	case height > 0:
		return Refused
	case code == grpcUnimplemented || status == http.StatusBadRequest:
		return BadInput
	case status == http.StatusNotFound:
		return NotFound
	case code == grpcUnknown || code == grpcInternal:
		return Ambiguous
	default:
		return Other
	}
}

// ErrNoLatest says that a node has just started: it cannot be read at its latest until the next block.
var ErrNoLatest = errors.New("the node cannot read its latest block yet")

// disambiguate finds out what an answer means that does not say so. A node of the SDK refuses heights
// that it does not have yet and heights that it no longer has with one code, and without gRPC
// the state's own errors look the same; reads of something else at that height tell them apart.
func (e *endpoint) disambiguate(ctx context.Context, r Request, height int64, a *Answer) (*Answer, error) {
	e.noteGRPC(a)
	switch {
	case r.Post != nil: // the caller knows what it asked for
		return a, nil
	case height == 0 && a.Reason == Ambiguous:
		return nil, badAnswer(ErrNoLatest)
	case height == 0 || !e.look().withoutGRPC && a.Reason != Ambiguous:
		return a, nil
	case a.Reason == NotFound || a.Reason == BadInput && a.NodeStatus != http.StatusNotImplemented:
		a.Reason, a.Height = Refused, height
		return a, nil
	case a.Reason != Ambiguous:
		return a, nil
	}
	if r.Path != e.client.protocol.probe {
		if readable, err := e.readable(ctx, height); err != nil {
			return nil, err
		} else if readable {
			return e.retry(ctx, r, height, a)
		}
	}
	return e.locate(ctx, height, a)
}

// retry follows an error at a height that can be read. Without gRPC it is the state's word; with it
// the block may have come between.
func (e *endpoint) retry(ctx context.Context, r Request, height int64, a *Answer) (*Answer, error) {
	if e.look().withoutGRPC {
		a.Reason, a.Height = Refused, height
		return a, nil
	}
	a, err := e.client.get(ctx, r, height)
	if err == nil && a.Reason == Ambiguous {
		a.Reason = Other
	}
	return a, err
}

// locate says on which side of the node's blocks a height is that cannot be read.
func (e *endpoint) locate(ctx context.Context, height int64, a *Answer) (*Answer, error) {
	latest, err := e.client.get(ctx, Request{Path: e.client.protocol.probe}, 0)
	if err != nil {
		return nil, err
	}
	a.Height, a.Reason = height, FutureHeight
	if latest.Reason != OK || height > latest.Height {
		return a, nil
	}
	readable, err := e.readable(ctx, height) // the block may have come meanwhile
	if err != nil {
		return nil, err
	}
	if !readable {
		a.Reason, a.Latest = Pruned, latest.Height
	}
	return a, nil
}

// readable says whether the node can read a height.
func (e *endpoint) readable(ctx context.Context, height int64) (bool, error) {
	a, err := e.client.get(ctx, Request{Path: e.client.protocol.probe}, height)
	return err == nil && a.Reason == OK, err
}

// noteGRPC learns whether a node answers without gRPC: its errors then tell no height.
func (e *endpoint) noteGRPC(a *Answer) {
	if a.Reason == OK && a.Height > 0 {
		without := a.Codec == ""
		e.update(func(v *view) { v.withoutGRPC = without })
	}
}
