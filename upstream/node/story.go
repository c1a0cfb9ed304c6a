package node

import (
	"bytes"
	"context"
	"net/http"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream/jsontext"
)

// noRoute is the page of a node that does not have the path. No handler ran, so there is no envelope.
const noRoute = "404 page not found"

// noSuchPath is the text of an answer that says so.
const noSuchPath = "the chain node has no such path"

// understand reads a whole answer to a read at a height, or 0: the reason and the node's text. The node answers 500 to
// every failure. ok is false for what a node does not say, such as another server's error page.
func understand(status int, body []byte, asked int64) (reason Reason, text string, ok bool) {
	said, ok := enveloped(body)
	switch {
	case status == http.StatusNotFound && bytes.HasPrefix(body, []byte(noRoute)):
		return NotFound, noSuchPath, true
	case !ok:
		return Other, "", false
	case status == http.StatusOK:
		return OK, "", true
	case status >= http.StatusBadRequest:
		reason, _ = classify(storyREST, said, asked)
		return reason, said, true
	default:
		return Other, "", false
	}
}

// enveloped tells the node's {"code":200,"msg":...,"error":""} from other JSON, and gives its error. It reads the
// body once: most of it is msg.
func enveloped(body []byte) (failure string, ok bool) {
	all, ok := jsontext.Members(body, "code", "error", "msg")
	if !ok {
		return "", false
	}
	code, text := gjson.ParseBytes(all[0]), gjson.ParseBytes(all[1])
	return text.Str, code.Type == gjson.Number && text.Type == gjson.String && all[2] != nil
}

func readStory(r *http.Response, body []byte, asked int64) (*Answer, bool) {
	reason, text, ok := understand(r.StatusCode, body, asked)
	a := &Answer{Status: reason.Status(), NodeStatus: r.StatusCode, Body: body, Text: text, Reason: reason, Height: asked}
	if reason == Pruned {
		a.Latest = latestIn(text)
	}
	return a, ok
}

// sounds tells whether the node reads something else at a height. A height is probed once.
func (e *endpoint) sounds(ctx context.Context, r Request, height int64) bool {
	if r.Path == e.client.protocol.probe {
		return false
	}
	if height > 0 && e.sound.Load() == height {
		return true
	}
	sound, _ := e.readable(ctx, height)
	if sound {
		e.sound.Store(height)
	}
	return sound
}
