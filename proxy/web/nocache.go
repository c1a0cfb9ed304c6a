package web

import (
	"net/http"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cache"
)

// WantsNoCache tells whether a client may and does ask for an answer that is just
// read from the origin: by Cache-Control with no-cache or max-age=0, as browsers do at a reload.
func (s *Stack) WantsNoCache(request http.Header) bool {
	if !s.o.AllowNoCache {
		return false
	}
	for _, value := range request["Cache-Control"] {
		for directive := range strings.SplitSeq(value, ",") {
			directive = strings.TrimSpace(directive)
			if strings.EqualFold(directive, "no-cache") || strings.EqualFold(directive, "max-age=0") {
				return true
			}
		}
	}
	return false
}

// NoCache makes a query ask for what holds now: for an answer read at the newest
// block, by whichever replica; where no block is known, for one read since the
// request came.
func NoCache(q cache.Query, came time.Time) cache.Query {
	if q.Tip > 0 {
		q.MinHeight = max(q.MinHeight, q.Tip)
	} else {
		q.Since = came
	}
	return q
}
