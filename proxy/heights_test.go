package proxy_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

const anyPath = "/staking/pool"

func TestMinimumBlockIsServedFromResponseHeightWithoutTip(t *testing.T) {
	s := startChain(t, proxy.Options{})
	s.chain.change(func(f *fakeChain) { f.tip.Known = false })
	s.get(t, anyPath, "X-Min-Block-Height", "200").expect(t, 200)
}

func TestResponsesAreMarkedWhileNodesCatchUp(t *testing.T) {
	s := startChain(t, proxy.Options{})
	s.chain.change(func(f *fakeChain) { f.tip.CatchingUp, f.behind = true, 100 })
	for _, status := range []string{`tipcache; fwd=uri-miss; stored; ttl=0; detail="catching-up"`, `tipcache; fwd=stale; stored; ttl=0; detail="catching-up"`} {
		got := s.get(t, anyPath)
		got.expectHeader(t, "X-Block-Height", "128")
		got.expectHeader(t, "Cache-Control", "public, max-age=0, s-maxage=0")
		got.expectHeader(t, "Cache-Status", status)
	}
	s.get(t, anyPath, "X-Min-Block-Height", "200").expectRefusal(t, 504, `{"code":504,"msg":{},"error":"the chain node does not have block 200 yet; its answer is from block 128"}`+"\n")
}

func TestMinimumAboveTheHeightIsRefusedInBothShapes(t *testing.T) {
	for _, shape := range []story.Shape{story.Documented, story.Node} {
		s := startChain(t, proxy.Options{Story: story.Options{Shape: shape}})
		s.get(t, anyPath, "X-Block-Height", "90", "X-Min-Block-Height", "95").expect(t, http.StatusBadRequest, "no block satisfies both")
		expect.Equal(t, s.chain.calls(), 0, "%s: node requests", shape)
	}
}

// newestBlockControl matches the Cache-Control of a response at the newest block.
var newestBlockControl = regexp.MustCompile(`^public, max-age=[012], s-maxage=[012]$`)

// Some reverse proxies empty a header instead of removing it.
func TestEmptyHeightsAndSessionsAreIgnored(t *testing.T) {
	sdk := newSDK(t, devnet.Options{}, nil)
	sdk.advance(t)
	withAndWithoutLane(t, proxy.Options{}, func(t *testing.T, s *chainService) {
		client := dial(t, s.Listener.Addr())
		for _, name := range []string{"X-Session", "X-Min-Block-Height", "X-Block-Height", "X-Min-Evm-Block"} {
			for range 3 {
				expectBlock(t, name, client.roundTrip(t, strings.TrimSuffix(getPool, "\r\n")+name+": \r\n\r\n"), "228", false)
			}
			sdk.get(t, sdkPool+"?x-block-height=&x-min-block-height=", name, "").expect(t, http.StatusOK)
		}
		if got := s.get(t, anyPath+"?x-block-height=&x-min-block-height=").header.Get("Cache-Control"); !newestBlockControl.MatchString(got) {
			t.Errorf("Cache-Control = %q, want %s", got, newestBlockControl)
		}
		s.get(t, anyPath+"?x-block-height=&x-block-height=100", "X-Block-Height", "").expectHeader(t, "X-Block-Height", "100")
		s.get(t, "/batch?path="+anyPath, "X-Session", "", "X-Block-Height", "").expectHeader(t, "X-Block-Height", "228")
	})
	s := startChain(t, proxy.Options{})
	if got := s.stream(t, anyPath+"?stream.block_height=100&stream.session=", "X-Block-Height", "").next(); !strings.HasPrefix(got, "id: 100.") {
		t.Errorf("event = %q, want one at the height of stream.block_height, 100", got)
	}
}

func TestSDKNodeIsReadAtHeightInURL(t *testing.T) {
	s := newSDK(t, devnet.Options{}, nil)
	s.advance(t)
	pinned := s.get(t, sdkPool+"?x-block-height=1000")
	pinned.expectHeader(t, "X-Cosmos-Block-Height", "1000")
	for _, fixed := range []exchange{pinned, s.get(t, "/cosmos/base/tendermint/v1beta1/blocks/1000")} {
		fixed.expect(t, http.StatusOK)
		fixed.expectHeader(t, "Cache-Control", "public, max-age=86400, immutable")
	}
	s.get(t, "/no/such/path?x-block-height=1000").expect(t, http.StatusNotImplemented)
	s.get(t, sdkPool+"?x-block-height=x").expect(t, http.StatusBadRequest)
	s.get(t, sdkPool+"?x-block-height=1000", "X-Cosmos-Block-Height", "1001").expect(t, http.StatusBadRequest)
	moved := s.get(t, "/cosmos//staking/v1beta1/pool?x-min-block-height=7&pagination.limit=1&Since=0&x=2&stream.session=5&y=%3d")
	moved.expect(t, http.StatusMovedPermanently)
	moved.expectHeader(t, "Location", sdkPool+"?pagination.limit=1&x=2&y=%3d&since=0&stream.session=5&x-min-block-height=7")
}

func TestStreamIsReadAtBlockInItsURLOrPath(t *testing.T) {
	s := startChain(t, proxy.Options{})
	for target, want := range map[string]string{
		anyPath + "?x-block-height=100":                                       "id: 100.",
		"/live?path=" + anyPath + "%3Fx-block-height%3D100":                   `"height":100`,
		"/live?x-block-height=100&path=" + anyPath:                            `"height":100`,
		"/live?x-block-height=99&path=" + anyPath + "%3Fx-block-height%3D100": `x-block-height is \"99\" and \"100\"`,
	} {
		expect.Contains(t, s.stream(t, target).next(), want, "event of %s", target)
	}
}

func TestHeightInTheURLIsExplainedAndNotLogged(t *testing.T) {
	var log bytes.Buffer
	s := startChain(t, proxy.Options{Web: web.Options{Record: record.Options{AccessLog: &log}, Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	const target = "/staking/validators?pagination.limit=2&x-block-height=100"
	e := explain(t, s.proxy, proxy.Inquiry{URL: target})
	if !strings.HasSuffix(e.Asks, " at block 100") || e.Class != "pinned" {
		t.Errorf("explanation = %s of class %s, want block 100 and class pinned", e.Asks, e.Class)
	}
	s.get(t, target)
	s.Close()
	if text := log.String(); !strings.Contains(text, "pagination.limit=2") || strings.Contains(text, "x-block-height") {
		t.Errorf("log = %s, want the query without x-block-height", text)
	}
}

const minEVM = "X-Min-Evm-Block"

// A stream that cannot begin in time responds with 200 and a retry event.
func TestExecutionBlockInTheURLWorksLikeTheHeader(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: blocks.Options{MinHeightWait: time.Millisecond}})
	counts, later := strconv.Itoa(standstill+executionAhead), strconv.Itoa(standstill+executionAhead+1)
	live := "/live?path=" + url.QueryEscape(anyPath)
	for target, want := range map[string]int{
		anyPath + "?x-min-evm-block=" + counts:                                 http.StatusOK,
		anyPath + "?X-Min-Evm-Block=" + later:                                  http.StatusGatewayTimeout,
		anyPath + "?x-min-evm-block=latest":                                    http.StatusBadRequest,
		batchOf(anyPath) + "&x-min-evm-block=" + counts:                        http.StatusOK,
		batchOf(anyPath) + "&x-min-evm-block=" + later:                         http.StatusGatewayTimeout,
		batchOf(anyPath + "?x-min-evm-block=" + counts):                        http.StatusBadRequest,
		live + "&x-min-evm-block=" + later:                                     http.StatusOK,
		live + "&x-min-evm-block=" + counts + "&stream.min_evm_block=" + later: http.StatusBadRequest,
		"/live?path=" + url.QueryEscape(anyPath+"?x-min-evm-block="+later):     http.StatusOK,
		anyPath + "?since=0&x-min-evm-block=" + later:                          http.StatusGatewayTimeout,
	} {
		s.get(t, target).expect(t, want)
	}
	s.get(t, anyPath+"?x-min-evm-block="+counts, minEVM, later).expect(t, http.StatusBadRequest, "X-Min-Evm-Block is "+later+" and x-min-evm-block is "+counts)
}

func TestExecutionBlockThatCannotBeAwaitedIsRefused(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: blocks.Options{MinHeightWait: time.Millisecond}})
	s.get(t, anyPath, minEVM, "9223372036854775807").expectRefusal(t, http.StatusGatewayTimeout,
		`{"code":504,"msg":{},"error":"block 9223372036854775807 of the execution client is not included yet; the newest included is 1228"}`+"\n")
	s.chain.change(func(f *fakeChain) { f.noExecution, f.executed = true, nil })
	s.get(t, anyPath, minEVM, "1").expectRefusal(t, http.StatusBadRequest,
		`{"code":400,"msg":{},"error":"cannot wait for X-Min-Evm-Block: no node reports the blocks of an execution client"}`+"\n")
}

// An execution block that was included earlier does not require a read at the newest block.
func TestIncludedExecutionBlockIsNotAwaitedAgain(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: blocks.Options{MinHeightWait: time.Minute}})
	counts := strconv.Itoa(standstill + executionAhead)
	answerPages(t, s)
	first := s.get(t, firstPage, minEVM, counts)
	first.expectHeader(t, "X-Block-Height", "228")
	s.get(t, anyPath, minEVM, counts).expectHeader(t, "X-Block-Height", "228")
	s.chain.grow(1)

	s.get(t, nextPage(first), minEVM, counts).expectHeader(t, "X-Block-Height", "228") // the walk is a snapshot
	s.get(t, anyPath, "X-Block-Height", "228", minEVM, counts).expectHeader(t, "X-Block-Height", "228")
	s.get(t, anyPath, "X-Block-Height", "227", minEVM, counts).expectRefusal(t, http.StatusGatewayTimeout,
		`{"code":504,"msg":{},"error":"block 1228 of the execution client is not included at block 227; the newest included is 1227"}`+"\n")

	s.chain.change(func(f *fakeChain) { f.noExecution = true }) // both servers of the node are down
	s.chain.failWith(&upstream.Error{Kind: upstream.Unreachable, Msg: "the chain node cannot be reached"})
	cached := s.get(t, anyPath, minEVM, counts)
	cached.expect(t, http.StatusOK)
	cached.expectHeader(t, "X-Block-Height", "228")
}

// Another replica served the first page, so this one does not know its block.
func TestLaterPageIsReadAtBlockOfItsWalkDespiteExecutionBlock(t *testing.T) {
	o := proxy.Options{Chain: blocks.Options{MinHeightWait: time.Minute}}
	other, s := startChain(t, o), startChain(t, o)
	answerPages(t, other)
	answerPages(t, s)
	walk := nextPage(other.get(t, firstPage))
	s.chain.grow(2)
	s.get(t, walk, minEVM, strconv.Itoa(standstill+executionAhead)).expectHeader(t, "X-Block-Height", "228")
	s.get(t, walk, minEVM, strconv.Itoa(standstill+executionAhead+1)).expectHeader(t, "X-Block-Height", "230")
}

// The effects of an execution block are in the state of the next consensus block.
func TestExecutionBlockIsVisibleAtTheNextConsensusBlock(t *testing.T) {
	d, nodes := simulate(t, node.Story, devnet.Options{}, nodeTimeout)
	p := expect.Value(proxy.New(proxy.Options{Cache: newCache(t, nil), Chain: blocks.Options{Nodes: nodes, MinHeightWait: time.Minute}}))(t)
	s := &chainService{Server: startServer(t, p, nil)}
	expect.NoError(t, nodes.WaitHeight(t.Context(), d.Height()))

	stake := d.EVM().Height() // included in the newest block
	first := s.get(t, anyPath, minEVM, strconv.FormatInt(stake-1, 10))
	first.expectHeader(t, "X-Block-Height", strconv.FormatInt(d.Height(), 10))
	answered := make(chan exchange, 1)
	go func() {
		answered <- s.get(t, anyPath, minEVM, strconv.FormatInt(stake, 10), "X-Min-Block-Height", first.header.Get("X-Session"))
	}()
	d.Advance(1)
	(<-answered).expectHeader(t, "X-Block-Height", strconv.FormatInt(d.Height(), 10))
	events := s.stream(t, "/live?path="+anyPath+"&stream.blocks=true")
	events.next()
	if got, want := events.next(), `,"evm_block":`+strconv.FormatInt(stake, 10)+"}\n"; !strings.HasSuffix(got, want) {
		t.Errorf("block event = %q, want one that ends with %s", got, want)
	}
}
