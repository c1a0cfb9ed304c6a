package node

import (
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"time"
)

// Requests of cost Unknown are for paths and methods that this program does not know. They are sent once, to one node.
// Their failures do not count against the node, and their answers reveal nothing about its blocks.

const (
	unknownTimeout = 5 * time.Second // maximum timeout
	unknownBody    = 8 << 20         // maximum size of a response in bytes
	drained        = 4 << 10         // bytes of an unused body to read so that the connection can be reused
)

func (e *endpoint) timeoutOf(r Request) time.Duration {
	switch {
	case r.slow():
		return slowCall
	case r.Cost == Unknown:
		return min(e.timeout, unknownTimeout)
	default:
		return e.timeout
	}
}

func (c *client) largest(r Request) int64 {
	if r.Cost == Unknown {
		return min(c.maxBody, unknownBody)
	}
	return c.maxBody
}

// getUnknown reads the response to a request of cost Unknown if it is JSON. A redirect, an HTML page, or a 404 without
// the node's envelope means that the node does not have the path.
func (c *client) getUnknown(ctx context.Context, r Request, response *http.Response, height int64) (*Answer, error) {
	typ, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	redirects := response.StatusCode/100 == http.StatusMultipleChoices/100
	if typ == "application/json" && !redirects {
		answer, err := c.readAnswer(response, r, height)
		if err != nil && ctx.Err() == nil && response.StatusCode == http.StatusNotFound {
			return noPath(), nil
		}
		return answer, err
	}
	_, _ = io.CopyN(io.Discard, response.Body, drained)
	switch {
	case response.StatusCode >= http.StatusInternalServerError:
		return nil, notNode(response)
	case redirects, typ == "text/html", response.StatusCode == http.StatusNotFound:
		return noPath(), nil
	default:
		return nil, badAnswer(fmt.Errorf("status %d and type %q, want JSON", response.StatusCode, typ))
	}
}

func noPath() *Answer {
	return &Answer{Status: http.StatusNotFound, NodeStatus: http.StatusNotFound, Reason: NotFound, Text: noSuchPath, NoPath: true}
}
