package chain

import (
	"net/url"
	"strconv"

	"github.com/tipcache/tipcache/upstream/node"
)

// A cacheRequest is a request reduced to what its answer depends on. Requests
// for the same have equal ones, however they were spelled.
type cacheRequest struct {
	key    string // canonical path and query, behind the shape; @ and the height if there is one
	path   string // of the key, percent-encoded: what the node is asked
	query  string
	page   page    // what is asked of a list
	walk   walkKey // what the page key said besides; zero where it is the node's own
	height int64   // block to be read at; 0 for the newest
	cost   node.Cost
}

// request is the cacheRequest as the node is asked it.
func (q cacheRequest) request() node.Request {
	path, _ := url.PathUnescape(q.path) // it was escaped here
	r := node.Request{Path: path, Query: q.query, Height: q.height, Cost: q.cost}
	if r.Height == 0 {
		r.Height = node.AtTip
	}
	return r
}

// at is the request as a question about one block.
func (q cacheRequest) at(height int64) cacheRequest {
	q.key += "@" + strconv.FormatInt(height, 10)
	q.height = height
	return q
}

// A queryWriter appends parameters to a path.
type queryWriter struct {
	text []byte
	path int // where the path ends
}

func (w queryWriter) name(name string) queryWriter {
	sep := byte('&')
	if len(w.text) == w.path {
		sep = '?'
	}
	w.text = append(append(append(w.text, sep), name...), '=')
	return w
}
