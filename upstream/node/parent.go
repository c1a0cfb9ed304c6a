package node

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/tipcache/tipcache/upstream"
)

// The address of a node may belong to another tipcache, called a parent, for example in another region. Its responses
// have Cache-Status. A parent is read at its newest block and not at a height, so that readers at slightly different
// heights share one of its entries. Its responses contain their height and age.

// parentHeader is the response header of a parent with the height of its answer.
const parentHeader = "X-Block-Height"

// detectParent records whether the server is a parent. Refusals have no Cache-Status and leave it unchanged.
func (c *client) detectParent(r *http.Response) {
	switch {
	case strings.HasPrefix(r.Header.Get("Cache-Status"), "tipcache;"):
		c.isParent.Store(true)
	case r.StatusCode == http.StatusOK:
		c.isParent.Store(false)
	}
}

// parentRefusal returns the error for a parent's response without an answer, or nil. It does not open the breaker,
// because the parent may have cached other answers.
func (c *client) parentRefusal(r *http.Response) error {
	busy := r.StatusCode == http.StatusTooManyRequests || r.StatusCode == http.StatusServiceUnavailable
	if !c.isParent.Load() || !busy && r.StatusCode != http.StatusBadGateway && r.StatusCode != http.StatusGatewayTimeout {
		return nil
	}
	err := badAnswer(fmt.Errorf("another tipcache has no answer: status %d", r.StatusCode)) // its node may have run a transaction
	if busy {
		err = &upstream.Error{Kind: upstream.Overloaded, Msg: nodeName + " is busy", Err: fmt.Errorf("%w: status %d", errRefusedByParent, r.StatusCode)}
	}
	err.RetryAfter = upstream.RetryAfter(r.Header)
	return err
}

func (a *Answer) readParent(header http.Header) {
	if height := statedHeight(header.Values(parentHeader)...); height != 0 {
		a.Height = height
	}
	age, _ := strconv.ParseUint(header.Get("Age"), 10, 31) // the greatest age if it is too large, 0 if it is no number
	a.Age = time.Duration(age) * time.Second
	a.Unsettled = !strings.Contains(header.Get("Cache-Control"), "immutable")
}
