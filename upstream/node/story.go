package node

import (
	"bytes"
	"context"
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/jsontext"
)

// noRoute is the response of a node that does not have the path. It has no envelope, because no handler ran.
const noRoute = "404 page not found"

// noSuchPath is the Text of an answer for an unknown path.
const noSuchPath = "the chain node has no such path"

// storyReason returns the reason of a response to a read at the height asked, which may be 0, and the node's text. The
// node's status for every failure is 500. ok is false if the response did not come from a node, such as another server's
// error page.
func storyReason(status int, body []byte, asked int64) (reason Reason, text string, ok bool) {
	failure, ok := enveloped(body)
	switch {
	case status == http.StatusNotFound && bytes.HasPrefix(body, []byte(noRoute)):
		return NotFound, noSuchPath, true
	case !ok:
		return Other, "", false
	case status == http.StatusOK:
		return OK, "", true
	case status >= http.StatusBadRequest:
		reason, _ = classify(storyREST, failure, asked)
		return reason, failure, true
	default:
		return Other, "", false
	}
}

// enveloped returns the error in the node's envelope {"code":200,"msg":...,"error":""}. ok is false for other JSON. It
// scans the body only once, because msg is long.
func enveloped(body []byte) (failure string, ok bool) {
	all, ok := jsontext.Members(body, "code", "error", "msg")
	if !ok {
		return "", false
	}
	code, text := gjson.ParseBytes(all[0]), gjson.ParseBytes(all[1])
	return text.Str, code.Type == gjson.Number && text.Type == gjson.String && all[2] != nil
}

func readStory(r *http.Response, body []byte, asked int64) (*Answer, bool) {
	reason, text, ok := storyReason(r.StatusCode, body, asked)
	a := &Answer{Status: reason.Status(), NodeStatus: r.StatusCode, Body: body, Text: text, Reason: reason, Height: asked}
	if reason == Pruned {
		a.Latest = latestIn(text)
	}
	return a, ok
}

// works reports whether a probe can read a height. After a success, it does not probe this height again.
func (e *endpoint) works(ctx context.Context, r Request, height int64) bool {
	if r.Path == e.client.protocol.probe {
		return false
	}
	if height > 0 && e.worksAt.Load() == height {
		return true
	}
	readable, _ := e.readable(ctx, height)
	if readable {
		e.worksAt.Store(height)
	}
	return readable
}
