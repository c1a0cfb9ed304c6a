package proxy_test

import (
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/upstream/node"
)

const firstPage = "/staking/validators?pagination.limit=2"

func nextPage(e exchange) string {
	return firstPage + "&pagination.key=" + url.QueryEscape(gjson.Get(e.body, "msg.pagination.next_key").Str)
}

// readsPages answers every read of validators with one page, which has a next.
func readsPages(t *testing.T, s *chainService) {
	t.Helper()
	page := recorded(t, "page_validators_limit_2")
	s.chain.does(func(r node.Request) (*node.Answer, error) {
		if strings.Contains(r.Query, "key=") && r.Height == node.AtTip {
			a := page.answer()
			a.Body = []byte(strings.Replace(page.Raw, `"next_key"`, `"newest":1,"next_key"`, 1))
			return a, nil
		}
		return page.answer(), nil
	})
}

func TestNextPageIsReadAtTheBlockOfTheFirst(t *testing.T) {
	s := startChain(t, proxy.Options{})
	readsPages(t, s)
	first := s.get(t, firstPage)
	s.chain.grow(5)
	second := s.get(t, nextPage(first))
	second.has(t, "X-Block-Height", "228")
	second.has(t, "Vary", "X-Block-Height, X-Min-Block-Height, X-Min-Evm-Block, Accept, Accept-Encoding")
	s.chain.grow(5)
	third := s.get(t, nextPage(second))
	third.has(t, "X-Block-Height", "228")
	if got := s.chain.last(); got.Height != 228 {
		t.Errorf("the third page is read at %d", got.Height)
	}
}

func TestRequestedHeightsTakePrecedenceOverPageKey(t *testing.T) {
	s := startChain(t, proxy.Options{})
	readsPages(t, s)
	next := nextPage(s.get(t, firstPage))
	s.chain.grow(5)
	s.get(t, next, "X-Block-Height", "230").has(t, "X-Block-Height", "230")
	s.get(t, next, "X-Min-Block-Height", "233").has(t, "X-Block-Height", "233")
	if got := s.chain.last(); got.Height != node.AtTip {
		t.Errorf("with a least height the page is read at %d, want the tip", got.Height)
	}
}

// The new history may be shorter than the walk, or have outgrown it.
func TestWalkOfEarlierEpochContinuesAtTip(t *testing.T) {
	for _, height := range []int64{200, 300} {
		s := startChain(t, proxy.Options{})
		readsPages(t, s)
		next := nextPage(s.get(t, firstPage))
		s.chain.set(func(f *fakeChain) { f.tip.Epoch, f.tip.Height = f.tip.Epoch+1, height })
		s.get(t, next).has(t, "X-Block-Height", strconv.FormatInt(height, 10))
	}
}
