package proxy_test

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

const minEVM = "X-Min-Evm-Block"

// A stream that cannot begin in time responds with 200 and a retry event.
func TestExecutionBlockInTheURLWorksLikeTheHeader(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: story.Options{MinHeightWait: time.Millisecond}})
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
	s := startChain(t, proxy.Options{Chain: story.Options{MinHeightWait: time.Millisecond}})
	s.get(t, anyPath, minEVM, "9223372036854775807").expectRefusal(t, http.StatusGatewayTimeout,
		`{"code":504,"msg":{},"error":"block 9223372036854775807 of the execution client is not included yet; the newest included is 1228"}`+"\n")
	s.chain.change(func(f *fakeChain) { f.noExecution, f.executed = true, nil })
	s.get(t, anyPath, minEVM, "1").expectRefusal(t, http.StatusBadRequest,
		`{"code":400,"msg":{},"error":"cannot wait for X-Min-Evm-Block: no node reports the blocks of an execution client"}`+"\n")
}

// An execution block that was included earlier does not require a read at the newest block.
func TestIncludedExecutionBlockIsNotAwaitedAgain(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: story.Options{MinHeightWait: time.Minute}})
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
	o := proxy.Options{Chain: story.Options{MinHeightWait: time.Minute}}
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
	p := expect.Value(proxy.New(proxy.Options{Cache: newCache(t, nil), Chain: story.Options{Nodes: nodes, MinHeightWait: time.Minute}}))(t)
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
