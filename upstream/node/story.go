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

const noSuchPath = "the chain node has no such path"

// readStory interprets a response. The node's status for every failure is 500. It returns false if the response did not come
// from a node, such as another server's error page.
func readStory(r *http.Response, body []byte, asked int64) (*Answer, bool) {
	a := &Answer{NodeStatus: r.StatusCode, Body: body, Height: asked}
	failure, ok := enveloped(body)
	switch status := r.StatusCode; {
	case status == http.StatusNotFound && bytes.HasPrefix(body, []byte(noRoute)):
		a.Reason, a.Text = NotFound, noSuchPath
	case !ok || status != http.StatusOK && status < http.StatusBadRequest:
		return nil, false
	case status != http.StatusOK:
		a.Text = failure
		a.Reason, _ = classify(storyREST, failure, asked)
	}
	a.Status = a.Reason.Status()
	if a.Reason == Pruned {
		a.Latest = latestIn(a.Text)
	}
	return a, true
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
