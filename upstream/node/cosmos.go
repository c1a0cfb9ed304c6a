package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/tidwall/gjson"
	"google.golang.org/grpc/codes"

	"github.com/tipcache/tipcache/upstream/jsontext"
)

// Response headers of an SDK node. The first two contain the height that it read. Errors have only the second one, and only
// if the state was read. Some versions never send the first one.
const (
	heightHeader   = "X-Cosmos-Block-Height"
	metadataHeader = "Grpc-Metadata-X-Cosmos-Block-Height"
	codecHeader    = "Grpc-Metadata-Content-Type" // present if the REST server uses gRPC
)

// gatewayCodes are the gRPC codes of errors that do not come from the application: the node's gateway cannot reach it
// because the node stops or starts (Unavailable), or a server in front of the node refuses the request.
var gatewayCodes = []codes.Code{codes.PermissionDenied, codes.ResourceExhausted, codes.Aborted, codes.Unavailable, codes.Unauthenticated}

// readCosmos interprets status, code and headers, because texts differ between versions and configurations.
func readCosmos(r *http.Response, body []byte, _ int64) (*Answer, bool) {
	if !jsontext.Valid(body) {
		return nil, false
	}
	a := &Answer{Status: r.StatusCode, NodeStatus: r.StatusCode, Body: body, Codec: r.Header.Get(codecHeader), Height: statedHeight(append(r.Header.Values(metadataHeader), r.Header.Values(heightHeader)...)...)}
	if r.StatusCode == http.StatusOK {
		return a, true
	}
	member := gjson.GetBytes(body, "code")
	if r.StatusCode < http.StatusBadRequest || member.Type != gjson.Number || !bytes.Contains(body, []byte(`"details"`)) {
		return nil, false
	}
	code := codes.Code(member.Uint()) //nolint:gosec // a code has 32 bits
	if a.Height <= 0 && slices.Contains(gatewayCodes, code) {
		return nil, false
	}
	a.Text = gjson.GetBytes(body, "message").String()
	a.Reason = cosmosReason(r.StatusCode, code, a.Height)
	a.Code, a.Doubt = code, doubtOf(code, a.Text)
	return a, true
}

// bodyTooLarge returns the node's refusal of a body above its limit, which may come as plain text, in the form of its other errors.
func bodyTooLarge() *Answer {
	const text = "http: request body too large"
	return &Answer{
		Status: http.StatusBadRequest, NodeStatus: http.StatusBadRequest, Reason: BadInput, Text: text,
		Type: "application/json", Body: []byte(`{"code":3,"message":"` + text + `","details":[]}`),
	}
}

// cosmosReason returns the reason of an error. An error with a height is the state's answer at this height.
func cosmosReason(status int, code codes.Code, height int64) Reason {
	switch {
	case height > 0:
		return Refused
	case code == codes.Unimplemented || status == http.StatusBadRequest:
		return BadInput
	case status == http.StatusNotFound:
		return NotFound
	case code == codes.Unknown || code == codes.Internal:
		return Ambiguous
	default:
		return Other
	}
}

// ErrNoLatest is the error of a node that has just started. It cannot read its latest block until the next one.
var ErrNoLatest = errors.New("the node cannot read its latest block yet")

// errNoHeaders is the error of a success that lacks the headers of the node's other ones: a server in front of the node
// reports its own errors so.
var errNoHeaders = fmt.Errorf("status 200 %w and headers", ErrForeign)

// disambiguate determines the reason of an ambiguous answer. An SDK node refuses future heights and pruned heights with
// the same code. Without gRPC, errors of the state look the same as well. Further reads at the height tell them apart.
func (e *endpoint) disambiguate(ctx context.Context, r Request, height int64, a *Answer) (*Answer, error) {
	e.noteHeaders(a)
	switch {
	case r.writes(), r.Post != nil && r.Unpinned: // the caller reads an unpinned POST again at a height
		return a, nil
	case r.IsMethod && a.Reason == OK && a.Height == 0 && a.Codec == "" && e.snapshot().sendsHeaders && !e.client.isParent.Load():
		return nil, badAnswer(errNoHeaders)
	case height == 0 && e.client.isParent.Load(): // Fetch reads the parent again, at a height
		return a, nil
	case height == 0 && a.Reason == Ambiguous:
		return e.checkLatest(ctx, r, a)
	case height == 0 || !e.snapshot().withoutGRPC && a.Reason != Ambiguous:
		return a, nil
	case a.Reason == NotFound || a.Reason == BadInput && a.NodeStatus != http.StatusNotImplemented: // without gRPC: an error of the state
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

// checkLatest handles an error of an unpinned request. Without gRPC no error has a height, so it is the request's unless the
// node cannot read its latest block.
func (e *endpoint) checkLatest(ctx context.Context, r Request, a *Answer) (*Answer, error) {
	if r.Path != e.client.protocol.probe && e.snapshot().withoutGRPC {
		if readable, err := e.readable(ctx, 0); err != nil {
			return nil, err
		} else if readable {
			a.Reason = BadInput
			return a, nil
		}
	}
	return nil, badAnswer(ErrNoLatest)
}

// retry handles an error at a readable height. Without gRPC it is an error of the state. With gRPC, the block may have
// arrived meanwhile, so the request is repeated.
func (e *endpoint) retry(ctx context.Context, r Request, height int64, a *Answer) (*Answer, error) {
	if e.snapshot().withoutGRPC {
		a.Reason, a.Height = Refused, height
		return a, nil
	}
	a, err := e.client.get(ctx, r, height)
	if err == nil && a.Reason == Ambiguous {
		a.Reason = Other
	}
	return a, err
}

// locate determines whether an unreadable height is pruned or in the future.
func (e *endpoint) locate(ctx context.Context, height int64, a *Answer) (*Answer, error) {
	latest, err := e.client.get(ctx, Request{Path: e.client.protocol.probe}, 0)
	if err != nil {
		return nil, err
	}
	a.Height, a.Reason = height, FutureHeight
	if latest.Reason != OK || height > latest.Height {
		return a, nil
	}
	readable, err := e.readable(ctx, height) // the block may have arrived meanwhile
	if err != nil {
		return nil, err
	}
	if !readable {
		a.Reason, a.Latest = Pruned, latest.Height
	}
	return a, nil
}

func (e *endpoint) readable(ctx context.Context, height int64) (bool, error) {
	a, err := e.client.get(ctx, Request{Path: e.client.protocol.probe}, height)
	return err == nil && a.Reason == OK, err
}

// noteHeaders records which headers the REST server's successful responses have.
func (e *endpoint) noteHeaders(a *Answer) {
	if a.Reason != OK || a.Height <= 0 && a.Codec == "" {
		return
	}
	e.update(func(v *view) {
		v.sendsHeaders = true
		if a.Height > 0 {
			v.withoutGRPC = a.Codec == ""
		}
	})
}
