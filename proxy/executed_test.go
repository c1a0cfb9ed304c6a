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

func TestExecutionBlockIsAwaited(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: story.Options{MinHeightWait: time.Minute}})
	s.get(t, anyPath)
	s.get(t, anyPath, minEVM, strconv.Itoa(standstill+executionAhead)).has(t, "X-Block-Height", "228")
	answered := make(chan exchange, 1)
	go func() { answered <- s.get(t, anyPath, minEVM, strconv.Itoa(standstill+executionAhead+3)) }()
	for range 5 {
		s.chain.grow(1)
		time.Sleep(time.Millisecond)
	}
	got := <-answered
	if height, _ := strconv.Atoi(got.header.Get("X-Block-Height")); got.status != http.StatusOK || height < standstill+3 {
		t.Errorf("status %d at block %d, want 231 or later", got.status, height)
	}
}

// A stream that cannot begin in time ends with the time after which to try again.
func TestExecutionBlockInTheURLEqualsTheHeader(t *testing.T) {
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
		s.get(t, target).wants(t, want)
	}
	if got := s.get(t, anyPath+"?x-min-evm-block="+counts, minEVM, later); got.status != http.StatusBadRequest || !strings.Contains(got.body, "X-Min-Evm-Block is "+later+" and x-min-evm-block is "+counts) {
		t.Errorf("a header and a parameter that differ = %d %s, want 400", got.status, got.body)
	}
}

func TestUnusableExecutionBlockIsReported(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: story.Options{MinHeightWait: time.Millisecond}})
	s.get(t, anyPath, minEVM, "9223372036854775807").refuses(t, http.StatusGatewayTimeout,
		`{"code":504,"msg":{},"error":"block 9223372036854775807 of the execution client is not included yet; the newest included is 1228"}`+"\n")
	s.chain.set(func(f *fakeChain) { f.noExecution, f.executed = true, nil })
	s.get(t, anyPath, minEVM, "1").refuses(t, http.StatusBadRequest,
		`{"code":400,"msg":{},"error":"cannot wait for X-Min-Evm-Block: no node reports the blocks of an execution client"}`+"\n")
	s.chain.deafen()
	s.get(t, anyPath, minEVM, "1", "X-Min-Block-Height", "1").refuses(t, http.StatusServiceUnavailable,
		`{"code":503,"msg":{},"error":"the newest block is unknown at present: cannot wait for X-Min-Evm-Block"}`+"\n")
}

// A block that counted long ago is no reason to read at the newest one.
func TestCountedBlockIsNotAwaitedAgain(t *testing.T) {
	s := startChain(t, proxy.Options{Chain: story.Options{MinHeightWait: time.Minute}})
	counts := strconv.Itoa(standstill + executionAhead)
	readsPages(t, s)
	first := s.get(t, firstPage, minEVM, counts)
	first.has(t, "X-Block-Height", "228")
	s.get(t, anyPath, minEVM, counts).has(t, "X-Block-Height", "228")
	s.chain.grow(1)

	s.get(t, nextPage(first), minEVM, counts).has(t, "X-Block-Height", "228") // the walk is a snapshot
	s.get(t, anyPath, "X-Block-Height", "228", minEVM, counts).has(t, "X-Block-Height", "228")
	s.get(t, anyPath, "X-Block-Height", "227", minEVM, counts).refuses(t, http.StatusGatewayTimeout,
		`{"code":504,"msg":{},"error":"block 1228 of the execution client is not included at block 227; the newest included is 1227"}`+"\n")

	s.chain.set(func(f *fakeChain) { f.noExecution = true }) // CometBFT is away, and the REST server
	s.chain.fails(&upstream.Error{Kind: upstream.Unreachable, Msg: "the chain node cannot be reached"})
	got := s.get(t, anyPath, minEVM, counts)
	got.has(t, "X-Block-Height", "228")
	if got.status != http.StatusOK {
		t.Errorf("status %d, although an answer is at hand", got.status)
	}
}

// Another replica has given the first page, so that nothing is known of its block here.
func TestLaterPageIsReadAtBlockOfItsWalkDespiteExecutionBlock(t *testing.T) {
	o := proxy.Options{Chain: story.Options{MinHeightWait: time.Minute}}
	other, s := startChain(t, o), startChain(t, o)
	readsPages(t, other)
	readsPages(t, s)
	walk := nextPage(other.get(t, firstPage))
	s.chain.grow(2)
	s.get(t, walk, minEVM, strconv.Itoa(standstill+executionAhead)).has(t, "X-Block-Height", "228")
	s.get(t, walk, minEVM, strconv.Itoa(standstill+executionAhead+1)).has(t, "X-Block-Height", "230")
}

// The whole way, before a simulated node: what a block did counts with the one
// after it.
func TestExecutionBlockIsVisibleAtTheNextConsensusBlock(t *testing.T) {
	d, nodes := simulate(t, node.Story, devnet.Options{})
	p := expect.Value(proxy.New(proxy.Options{Cache: newCache(t, nil), Chain: story.Options{Nodes: nodes, MinHeightWait: time.Minute}}))(t)
	s := &chainService{Server: startServer(t, p, nil, nil)}
	expect.Eventually(t, "the tip", func() bool { return nodes.Tip().Known && nodes.Tip().Height == d.Height() })

	stake := d.EVM().Height() // the block that the newest carries
	first := s.get(t, anyPath, minEVM, strconv.FormatInt(stake-1, 10))
	first.has(t, "X-Block-Height", strconv.FormatInt(d.Height(), 10))
	answered := make(chan exchange, 1)
	go func() {
		answered <- s.get(t, anyPath, minEVM, strconv.FormatInt(stake, 10), "X-Min-Block-Height", first.header.Get("X-Session"))
	}()
	d.Advance(1)
	(<-answered).has(t, "X-Block-Height", strconv.FormatInt(d.Height(), 10))
	events := s.stream(t, "/live?path="+anyPath+"&stream.blocks=true")
	events.next()
	if got, want := events.next(), `,"evm_block":`+strconv.FormatInt(stake, 10)+"}\n"; !strings.HasSuffix(got, want) {
		t.Errorf("block event = %q, want one that ends with %s", got, want)
	}
}
