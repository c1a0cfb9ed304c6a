package proxy_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/upstream/node"
)

const firstPage = "/staking/validators?pagination.limit=2"

// nextPage is the request for the page after the one in a body.
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

func TestTheNextPageIsReadAtTheBlockOfTheFirst(t *testing.T) {
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

func TestTheHeightsOfARequestGoBeforeThatOfItsPageKey(t *testing.T) {
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

func TestAWalkWhoseBlockIsPrunedGoesOnAtTheTip(t *testing.T) {
	s := startChain(t, proxy.Options{})
	readsPages(t, s)
	next := nextPage(s.get(t, firstPage))
	s.chain.grow(1000)
	s.chain.does(func(r node.Request) (*node.Answer, error) {
		if r.Height != node.AtTip {
			return recorded(t, "pruned_height_1").answer(), nil
		}
		return recorded(t, "page_validators_limit_2").answer(), nil
	})
	got := s.get(t, next)
	got.has(t, "X-Block-Height", "1228")
	if got.status != http.StatusOK {
		t.Errorf("status %d: %s", got.status, got.body)
	}
}

// The new history may be shorter than the walk, or have outgrown it.
func TestAWalkOfAnEarlierEpochGoesOnAtTheTip(t *testing.T) {
	for _, height := range []int64{200, 300} {
		s := startChain(t, proxy.Options{})
		readsPages(t, s)
		next := nextPage(s.get(t, firstPage))
		s.chain.set(func(f *fakeChain) { f.tip.Epoch, f.tip.Height = f.tip.Epoch+1, height })
		s.get(t, next).has(t, "X-Block-Height", strconv.FormatInt(height, 10))
	}
}

func TestAQuietListNamesTheEpochThatIsInForce(t *testing.T) {
	s := startChain(t, proxy.Options{})
	readsPages(t, s)
	before := s.get(t, firstPage)
	s.chain.set(func(f *fakeChain) { f.tip.Epoch++ })
	s.chain.grow(1)
	after := s.get(t, firstPage)
	after.has(t, "X-Block-Height", "229")
	if nextPage(after) == nextPage(before) {
		t.Error("its page key is still that of the epoch before")
	}
}

func TestAPageKeyThatWasAlteredOrIsOfAnotherListIsRefused(t *testing.T) {
	s := startChain(t, proxy.Options{})
	readsPages(t, s)
	key := gjson.Get(s.get(t, firstPage).body, "msg.pagination.next_key").Str
	calls := s.chain.calls()
	refusal := func(key string) string {
		return `{"code":400,"msg":{},"error":"pagination.key is \"` + key + `\"; expected the next_key of the page before, as it came"}` + "\n"
	}
	for name, target := range map[string]string{
		"another list":    "/staking/validators/" + val5 + "/delegations?pagination.key=" + key,
		"a changed byte":  firstPage + "&pagination.key=" + key[:9] + "_" + key[10:],
		"cut short":       firstPage + "&pagination.key=" + key[:len(key)-3],
		"nothing behind":  firstPage + "&pagination.key=tip-",
		"not base64":      firstPage + "&pagination.key=tip-%21%21",
		"padded":          firstPage + "&pagination.key=" + key + "%3D",
		"key and offset ": firstPage + "&pagination.offset=3&pagination.key=" + key,
	} {
		t.Run(name, func(t *testing.T) {
			got := s.get(t, target)
			if sent, _ := url.QueryUnescape(target[strings.Index(target, "key=")+4:]); name != "key and offset " {
				got.refuses(t, 400, refusal(sent))
			} else if got.status != 400 {
				t.Errorf("status %d: %s", got.status, got.body)
			}
		})
	}
	if n := s.chain.calls(); n != calls {
		t.Errorf("the node was asked %d times", n-calls)
	}
}

func TestAQuietListIsMadeAnewOnlyWhenItsPageKeyGrowsOld(t *testing.T) {
	s := startChain(t, proxy.Options{})
	readsPages(t, s)
	first := s.get(t, firstPage)
	for height := 229; height < 236; height++ {
		s.chain.grow(1)
		s.get(t, firstPage, "X-Min-Block-Height", strconv.Itoa(height)).has(t, "Etag", first.header.Get("Etag"))
	}
	s.chain.grow(1)
	later := s.get(t, firstPage, "X-Min-Block-Height", "236")
	later.has(t, "X-Block-Height", "236")
	if later.body == first.body {
		t.Error("after 8 blocks the page key still names the first")
	}
	s.get(t, nextPage(later)).has(t, "X-Block-Height", "236")
}

func TestTheNodesShapeKeepsTheNodesPageKeys(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: chain.Options{Shape: chain.Node}})
	if got := s.get(t, firstPage); got.body != recorded(t, "page_validators_limit_2").Raw {
		t.Errorf("body %s", got.body)
	}
}
