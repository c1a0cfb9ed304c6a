package proxy_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/upstream/devnet"
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

func TestStreamOfLaterPageContinuesAtTipAfterPruning(t *testing.T) {
	s := startChain(t, proxy.Options{})
	answerPages(t, s)
	next := nextPage(s.get(t, firstPage))
	s.chain.grow(1000)
	var n atomic.Int64
	s.chain.answerWith(func(r node.Request) (*node.Answer, error) {
		if r.Height != node.AtTip {
			return findRecording(t, "pruned_height_1").answer(), nil
		}
		return recording{Status: 200, Raw: fmt.Sprintf(`{"code":200,"msg":{"validators":[],"pagination":{"next_key":null,"total":"%d"}},"error":""}`, n.Add(1))}.answer(), nil
	})
	es, live := s.stream(t, next), s.stream(t, "/live?path="+url.QueryEscape(next))
	for height := 1228; height <= 1230; height++ {
		id, total := fmt.Sprintf("id: %d.", height), fmt.Sprintf(`"total":"%d"`, height-1227)
		if got := es.next(); !strings.HasPrefix(got, id) || !strings.Contains(got, total) {
			t.Errorf("event = %q, want %s and %s", got, id, total)
		}
		if got := live.next(); !strings.HasPrefix(got, id) || !strings.Contains(got, total) {
			t.Errorf("event of /live = %q, want %s and %s", got, id, total)
		}
		s.chain.grow(1)
	}
}

func TestStreamOfLaterPageStaysAtTheBlockOfItsWalk(t *testing.T) {
	s := startChain(t, proxy.Options{})
	answerPages(t, s)
	next := nextPage(s.get(t, firstPage))
	s.chain.grow(1000)
	es := s.stream(t, next+"&stream.blocks=true")
	expect.Contains(t, es.next()+es.next(), "id: 228.", "events")
	s.chain.grow(1)
	es.expect("event: block\ndata: {\"height\":1229,\"session\":\"1229\",\"evm_block\":2229}\n")
}

func TestStreamOfSeveralPagesAwaitsBlockOfTheirWalkOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, chain := newChainProxy(t, proxy.Options{})
		next := url.QueryEscape(nextPage(exchange{body: serveGET(p, "/staking/validators", "pagination.limit=2").Body.String()}))
		chain.grow(-1)
		began, w := time.Now(), httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodHead, "/live?path="+next+strings.Repeat("&path="+next, 19), nil)
		r.Header.Set("Accept", "text/event-stream")
		p.ServeHTTP(w, r)
		if waited := time.Since(began); w.Code != http.StatusOK || waited != 4*time.Second {
			t.Errorf("status = %d after %v, want 200 after one wait of two blocks", w.Code, waited)
		}
	})
}

func TestStreamIgnoresChangesOfThePageKeyAlone(t *testing.T) {
	s := startChain(t, proxy.Options{})
	page := findRecording(t, "page_validators_limit_2")
	s.chain.reply(page.Status, page.Raw)
	es := s.stream(t, firstPage)
	es.next()
	for calls := 1; calls <= 9; calls++ { // the key names a later block after 8
		expect.EventuallyEqual(t, "a read of the page", s.chain.calls, calls)
		s.chain.grow(1)
	}
	s.chain.reply(page.Status, strings.Replace(page.Raw, `"next_key"`, `"newest":1,"next_key"`, 1))
	s.chain.grow(1)
	expect.Contains(t, es.next(), `"newest":1`, "event after a change of the page")
}

func TestSDKStreamOutlivesItsFirstRequest(t *testing.T) {
	s := newSDK(t, devnet.Options{}, nil)
	first, several := s.stream(t, sdkInflation), s.stream(t, "/live?path="+sdkInflation)
	first.next()
	several.next()
	first.close()
	for block := 1001; block <= 1010; block++ {
		for range 5 {
			s.get(t, sdkWide) // reuses the objects of the first request
		}
		s.Advance(1)
		if got := several.next(); !strings.HasPrefix(got, fmt.Sprintf("id: %d.", block)) {
			t.Fatalf("event = %q, want one of block %d", got, block)
		}
	}
}

const sdkInflation = "/cosmos/mint/v1beta1/inflation"

func (s *sdkService) stream(t *testing.T, target string) *eventStream {
	t.Helper()
	return openStream(t, http.DefaultClient, s.server.URL+target)
}
