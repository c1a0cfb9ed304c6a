package proxy_test

import (
	"net/url"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

const firstPage = "/staking/validators?pagination.limit=2"

// nextPage returns the target of the page after e.
func nextPage(e exchange) string {
	return firstPage + "&pagination.key=" + url.QueryEscape(gjson.Get(e.body, "msg.pagination.next_key").Str)
}

// answerPages makes the chain answer every request with one page that has a next.
func answerPages(t *testing.T, s *chainService) {
	t.Helper()
	page := findRecording(t, "page_validators_limit_2")
	s.chain.answerWith(func(node.Request) (*node.Answer, error) { return page.answer(), nil })
}

func TestNextPageIsReadAtTheBlockOfTheFirst(t *testing.T) {
	s := startChain(t, proxy.Options{})
	answerPages(t, s)
	first := s.get(t, firstPage)
	s.chain.grow(5)
	second := s.get(t, nextPage(first))
	second.expectHeader(t, "X-Block-Height", "228")
	second.expectHeader(t, "Vary", "X-Block-Height, X-Min-Block-Height, X-Min-Evm-Block, Accept, Accept-Encoding")
	s.chain.grow(5)
	third := s.get(t, nextPage(second))
	third.expectHeader(t, "X-Block-Height", "228")
	expect.Equal(t, s.chain.lastRequest().Height, 228, "height of the read of the third page")
}

func TestRequestedHeightsTakePrecedenceOverPageKey(t *testing.T) {
	s := startChain(t, proxy.Options{})
	answerPages(t, s)
	next := nextPage(s.get(t, firstPage))
	s.chain.grow(5)
	s.get(t, next, "X-Block-Height", "230").expectHeader(t, "X-Block-Height", "230")
	s.get(t, next, "X-Min-Block-Height", "233").expectHeader(t, "X-Block-Height", "233")
	expect.Equal(t, s.chain.lastRequest().Height, node.AtTip, "height of the read with a minimum block")
}
