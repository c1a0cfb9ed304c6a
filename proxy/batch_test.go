package proxy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// Paths whose answers answerHeights makes differ from block to block.
const (
	poolPath   = "/staking/pool"
	paramsPath = "/slashing/params"
	mintPath   = "/mint/params"
)

// answerHeights makes the chain answer each path with the height of its read. Reads of the failing paths fail.
func answerHeights(s *chainService, failing ...string) {
	s.chain.answerWith(func(r node.Request) (*node.Answer, error) {
		if slices.Contains(failing, r.Path) {
			return nil, errors.New("node is down")
		}
		height := r.Height
		if height == node.AtTip {
			height = s.chain.tip.Height
		}
		return recording{Status: 200, Raw: fmt.Sprintf(`{"code":200,"msg":{"at":"%d"},"error":""}`, height)}.answer(), nil
	})
}

func batchOf(paths ...string) string { return "/batch?" + url.Values{"path": paths}.Encode() }

// batchResponse is the body of a batch.
type batchResponse struct {
	Height  int64
	Answers []struct {
		Path   string
		Status int
		Body   json.RawMessage
		Text   string
		Link   string
	}
}

func parseBatch(t *testing.T, e exchange) (p batchResponse) {
	t.Helper()
	if err := json.Unmarshal([]byte(e.body), &p); err != nil || e.status != http.StatusOK {
		t.Fatalf("batch = %d %s, %v; want 200 with JSON", e.status, e.body, err)
	}
	return p
}

// expectHeight fails the test unless the batch and all its answers are from one block.
func (p batchResponse) expectHeight(t *testing.T, height int64) {
	t.Helper()
	expect.Equal(t, p.Height, height, "height")
	for _, a := range p.Answers {
		if !strings.Contains(string(a.Body), fmt.Sprintf(`"at":"%d"`, p.Height)) {
			t.Errorf("answer of %s in a batch of block %d = %s, want that height", a.Path, p.Height, a.Body)
		}
	}
}

func TestBatchAnswersItsPathsAtOneBlock(t *testing.T) {
	s := startChain(t, proxy.Options{})
	e := s.get(t, batchOf("/auth/params", "/staking/validators?pagination.limit=1", "/staking/validators/"+nobody, "/staking/validators/0x1"))
	want := fmt.Sprintf(`{"height":228,"answers":[{"path":"/auth/params","status":200,"body":%s},`+
		`{"path":"/staking/validators?pagination.limit=1","status":200,"body":%s},{"path":"/staking/validators/%s","status":404,"body":%s},{"path":"/staking/validators/0x1","status":400,"body":%s}]}`+"\n",
		strings.TrimSpace(s.get(t, "/auth/params").body), strings.TrimSpace(s.get(t, "/staking/validators?pagination.limit=1").body),
		nobody, strings.TrimSpace(s.get(t, "/staking/validators/"+nobody).body), strings.TrimSpace(s.get(t, "/staking/validators/0x1").body))
	expect.Equal(t, e.status, http.StatusOK, "status")
	expect.NoDiff(t, e.body, want, "body")
	e.expectHeader(t, "X-Block-Height", "228")
	e.expectHeader(t, "Content-Type", respond.JSON)
	if got := e.header.Get("Cache-Control"); !strings.HasPrefix(got, "public, max-age=") || !strings.Contains(got, "s-maxage") {
		t.Errorf("Cache-Control = %q, want public with max-age and s-maxage", got)
	}
	expect.Equal(t, s.chain.calls(), 3, "node requests for three valid paths")
}

func TestBatchMemberThatIsNotJSONIsAString(t *testing.T) {
	s := startChain(t, proxy.Options{Story: story.Options{Shape: story.Node}})
	const target = "/staking/validators/0x1"
	alone, p := s.get(t, target), parseBatch(t, s.get(t, batchOf(target)))
	if got := p.Answers[0]; got.Text != alone.body || got.Status != alone.status {
		t.Errorf("member = %d %q, want %d %q", got.Status, got.Text, alone.status, alone.body)
	}
}

func TestBatchMemberHasItsOwnLink(t *testing.T) {
	s := startChain(t, proxy.Options{})
	list := "/staking/validators/" + val5 + "/delegators/" + del1 + "/period_delegations?pagination.limit=2"
	p := parseBatch(t, s.get(t, batchOf(poolPath, list)))
	alone, found := strings.CutPrefix(s.get(t, list).header.Get("Link"), "<?pagination.key=tip-")
	path, _, _ := strings.Cut(list, "?")
	if want := "<" + path + "?pagination.key=tip-" + alone; !found || p.Answers[1].Link != want || p.Answers[0].Link != "" {
		t.Errorf("links = %q and %q, want none and %q", p.Answers[0].Link, p.Answers[1].Link, want)
	}
}

func TestBatchFallsBackToNewestBlockThatAllPathsHave(t *testing.T) {
	c := expect.Value(cache.New(cache.Options{Patience: time.Millisecond}))(t)
	t.Cleanup(func() { _ = c.Close() })
	s := startChain(t, proxy.Options{Cache: c})
	answerHeights(s)
	parseBatch(t, s.get(t, batchOf(poolPath, paramsPath))).expectHeight(t, 228)
	s.get(t, mintPath)
	s.chain.grow(1)
	answerHeights(s, poolPath)
	s.get(t, mintPath) // which still works
	for _, paths := range [][]string{{poolPath, paramsPath}, {mintPath, poolPath}} {
		e := s.get(t, batchOf(paths...)) // only the first batch is cached
		parseBatch(t, e).expectHeight(t, 228)
		e.expectHeader(t, "X-Block-Height", "228")
		if got := e.header.Get("Cache-Status"); !strings.Contains(got, "stale-") || !strings.HasPrefix(e.header.Get("Cache-Control"), "public, max-age=0") {
			t.Errorf("%v: Cache-Status = %s, Cache-Control = %s; want a stale response", paths, got, e.header.Get("Cache-Control"))
		}
	}
	if e := s.get(t, batchOf(poolPath, paramsPath), "X-Min-Block-Height", "229"); e.status < 500 {
		t.Errorf("batch with minimum block 229 = %d %s, want a failure", e.status, e.body)
	}
	answerHeights(s)
	s.chain.grow(1)
	parseBatch(t, s.get(t, batchOf(poolPath, paramsPath), "X-Min-Block-Height", "230")).expectHeight(t, 230)
}

func TestBatchIsReadAtRequestedBlock(t *testing.T) {
	s := startChain(t, proxy.Options{})
	answerHeights(s)
	for name, e := range map[string]exchange{
		"header": s.get(t, batchOf(poolPath, paramsPath), "X-Block-Height", "100"),
		"URL":    s.get(t, batchOf(poolPath, paramsPath)+"&x-block-height=100"),
	} {
		parseBatch(t, e).expectHeight(t, 100)
		want := map[string]string{"header": "private, max-age=86400", "URL": "public, max-age=86400, immutable"}[name]
		e.expectHeader(t, "Cache-Control", want)
	}
	go s.chain.grow(2)
	parseBatch(t, s.get(t, batchOf(poolPath, paramsPath), "X-Min-Block-Height", "230")).expectHeight(t, 230)
}

func TestBatchContinuesWalksOfItsLists(t *testing.T) {
	s := startChain(t, proxy.Options{})
	nextOfBatch := func(others ...string) string { // others give the batch a key of its own
		t.Helper()
		first := parseBatch(t, s.get(t, batchOf(append([]string{firstPage}, others...)...))).Answers[0]
		return nextPage(exchange{body: string(first.Body)})
	}
	next := nextOfBatch()
	s.chain.grow(7)
	second := nextOfBatch(poolPath)
	s.chain.grow(7)
	s.get(t, batchOf(second, next, nextOfBatch(mintPath))).expectRefusal(t, 400, chainRefusal(400, "the page keys are from blocks 228 and 242; name one block for all with X-Block-Height"))
	s.chain.grow(20)
	s.get(t, batchOf(next, poolPath)).expectHeader(t, "X-Block-Height", "228")
	s.get(t, batchOf(next, nextOfBatch())).expectRefusal(t, 400, chainRefusal(400, "the page keys are from blocks 228 and 262; name one block for all with X-Block-Height"))
}

// chainRefusal returns the body of a refusal in the documented shape.
func chainRefusal(code int, text string) string {
	quoted, _ := json.Marshal(text)
	return fmt.Sprintf(`{"code":%d,"msg":{},"error":%s}`+"\n", code, quoted)
}

func TestMalformedBatchIsRefused(t *testing.T) {
	s := startChain(t, proxy.Options{})
	for target, want := range map[string]string{
		"/batch": "path is given 0 times; expected 1 to 20, each a path of this server with its query",
		batchOf(strings.Split(strings.Repeat("/x ", 21), " ")[:21]...): "path is given 21 times; expected 1 to 20, each a path of this server with its query",
		batchOf(poolPath, "staking/pool"):                              `path is "staking/pool"; expected a path of this server with its query`,
		batchOf(poolPath, "https://example.org/"):                      `path is "https://example.org/"; expected a path of this server with its query`,
		batchOf(poolPath, "/staking/pol"):                              `path "/staking/pol": this server does not know /staking/pol, and passes it to a node only if it is requested alone; did you mean /staking/pool?`,
		batchOf(poolPath, "/docs"):                                     `path "/docs" is not about the state of the chain at a block; request it alone`,
		batchOf(batchOf(poolPath)):                                     `path "/batch?path=%2Fstaking%2Fpool" is not about the state of the chain at a block; request it alone`,
		batchOf(poolPath + "?x-block-height=7"):                        `path "/staking/pool?x-block-height=7" names a block, but a batch names one block for all paths`,
		batchOf(poolPath, paramsPath+"?Since=0"):                       `path "/slashing/params?Since" has the parameter Since, which belongs to the whole request`,
		batchOf(poolPath + "?stream.api_key=secret"):                   `path "/staking/pool?stream.api_key" has the parameter stream.api_key, which belongs to the whole request`,
		batchOf(poolPath) + "&x-block-height=0":                        `x-block-height is "0"; expected a positive integer`,
	} {
		s.get(t, target).expectRefusal(t, 400, chainRefusal(400, want))
	}
	s.get(t, batchOf(poolPath), "X-Block-Height", "900").expectRefusal(t, 400, chainRefusal(400, "block 900 is in the future; the newest is 228"))
	expect.Equal(t, s.chain.calls(), 0, "node requests")
	s.chain.reply(200, `{"code":200,"msg":{"x":"`+strings.Repeat("x", blocks.MaxBatchBytes/2)+`"},"error":""}`)
	s.get(t, batchOf(poolPath, paramsPath)).expectRefusal(t, 400, chainRefusal(400, "the responses are larger than 4194304 bytes together; request fewer paths or smaller pages"))
}

func TestSDKBatchIsReadAtOneBlockAndContainsOnlyState(t *testing.T) {
	s := newSDK(t, devnet.Options{}, nil)
	e := s.get(t, batchOf(sdkPool, sdkSender))
	if p := parseBatch(t, e); len(p.Answers) != 2 || fmt.Sprint(p.Height) != e.header.Get("X-Block-Height") {
		t.Errorf("batch at %s = %s, want two answers at that height", e.header.Get("X-Block-Height"), e.body)
	}
	expect.Contains(t, e.header.Get("Vary"), "X-Cosmos-Block-Height", "Vary")
	s.get(t, batchOf(sdkPool), "X-Block-Height", "99999999").expect(t, http.StatusBadRequest, "block 99999999 is in the future")
	for path, want := range map[string]string{
		"/cosmos/base/tendermint/v1beta1/blocks/latest": "is not about the state",
		"/cosmos/base/tendermint/v1beta1/blocks/5":      "is not about the state",
		"/cosmos/base/tendermint/v1beta1/node_info":     "is not about the state",
		sdkTxs + "/00":          "is not about the state",
		"/nothing/of/the/kind":  "no such path: /nothing/of/the/kind",
		"/cosmos/../" + sdkPool: "no such path",
	} {
		s.get(t, batchOf(sdkPool, path)).expect(t, http.StatusBadRequest, want)
	}
	e = s.get(t, batchOf(sdkPool, sdkSender), "X-Cosmos-Block-Height", "2")
	e.expectHeader(t, "X-Block-Height", "2")
	expect.Equal(t, parseBatch(t, e).Height, 2, "height of %s", e.body)
}

func TestETagOfABatchChangesWithItsAnswers(t *testing.T) {
	s := startChain(t, proxy.Options{})
	target := batchOf("/auth/params", "/staking/validators")
	first := s.get(t, target)
	s.chain.grow(1)
	unchanged := s.get(t, target, "If-None-Match", first.header.Get("Etag"))
	unchanged.expect(t, http.StatusNotModified)
	unchanged.expectHeader(t, "X-Block-Height", "229")
	answerHeights(s)
	s.chain.grow(1)
	s.get(t, target, "If-None-Match", s.get(t, target, "X-Block-Height", "228").header.Get("Etag")).expect(t, http.StatusOK)
}

func TestEachPathOfABatchCountsAgainstTheLimit(t *testing.T) {
	s := startChain(t, proxy.Options{Web: web.Options{Limits: limits.Limits{Address: limits.Rate{Requests: 6, Per: time.Hour, Burst: 6}}}})
	var got []int
	for _, n := range []int{7, 4, 2, 1} {
		got = append(got, s.get(t, batchOf(slices.Repeat([]string{poolPath}, n)...)).status)
	}
	expect.NoDiff(t, got, []int{400, 200, 429, 429}, "statuses for 7, 4, 2 and 1 paths with a limit of 6")
}

func TestEachPathOfABatchCountsForAKeyAfterRequestsWithoutLimit(t *testing.T) {
	limited := keyOf("limited", "secret")
	limited.Rate = limits.Rate{Requests: 4, Per: time.Hour, Burst: 4}
	s := startChain(t, proxy.Options{Web: web.Options{Keys: []limits.Key{limited}}})
	target := batchOf(slices.Repeat([]string{poolPath}, 4)...)
	for range 5 { // often enough for the lane
		s.get(t, target).expect(t, http.StatusOK)
	}
	for _, want := range []int{http.StatusOK, http.StatusTooManyRequests} {
		s.get(t, target, "X-Api-Key", "secret").expect(t, want)
	}
}

func TestBatchWithoutMemoryIsRefused(t *testing.T) {
	c := expect.Value(cache.New(cache.Options{MemoryBytes: 4 << 20}))(t)
	t.Cleanup(func() { _ = c.Close() })
	s := startChain(t, proxy.Options{Cache: c})
	s.chain.reply(200, `{"code":200,"msg":"`+strings.Repeat("x", 20<<10)+`","error":""}`)
	if !c.Account().Reserve(account.Upstream, c.Account().Limit()/8*7-30<<10) {
		t.Fatal("Reserve = false, want true")
	}
	for paths, want := range map[string]int{poolPath: http.StatusOK, paramsPath + " " + mintPath: http.StatusServiceUnavailable} {
		s.get(t, batchOf(strings.Fields(paths)...)).expect(t, want)
	}
}
