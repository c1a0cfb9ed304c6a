package probe_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cmd/tipcache/probe"
	"github.com/tipcache/tipcache/proxy/story/documented"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/devnettest"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestEndpointIsComparedWithNewestBlockNamedBefore(t *testing.T) {
	n := network{first: &fakeNode{}, second: &fakeNode{lag: withLag(1)}, third: &fakeNode{lag: withLag(4), hides: true}}
	r := n.mustProbe(t, probe.Options{Endpoints: []string{"current=" + first, "late=" + second, third}})
	expect.Equal(t, r.Chain, "chain-1", "chain")
	expect.Equal(t, r.Newest, 1030, "newest block")
	current, late, silent := r.Endpoints[0], r.Endpoints[1], r.Endpoints[2]
	for _, e := range r.Endpoints {
		expect.Equal(t, e.Failures, 0, "failures of %s", e.Name)
		if e.Samples < 299 {
			t.Errorf("samples of %s = %d, want 5 per second", e.Name, e.Samples)
		}
	}
	expect.Equal(t, silent.Name, "127.0.0.1:3", "name of the endpoint without a name")
	expect.Equal(t, current.Behind, probe.Behind{At0: 1}, "behind of the current endpoint")
	// Each block lasts ten samples. The first of them is sent before any endpoint has named the block.
	if b := late.Behind; b.At0+b.At1 != 1 || b.At0 < 0.08 || b.At0 > 0.12 || b.Most != 1 || b.P50 != 800 || b.P99 != 1800 {
		t.Errorf("behind of the late endpoint = %+v, want 1 block in nine of ten samples, for 0.8 s at the median and 1.8 s at most", b)
	}
	expect.Equal(t, silent.Named, 0, "samples that name a block, of the endpoint that does not name blocks")
	expect.Equal(t, silent.Silent, silent.Samples, "samples that name no block")
	expect.Equal(t, silent.Pinned.Compared, 0, "comparisons of the endpoint that does not name blocks")
}

func TestBlockOutOfReachIsAFailure(t *testing.T) {
	const far = 1_000_000
	var reads atomic.Int64
	lies := &fakeNode{lag: func(*http.Request) (blocks int64) {
		if reads.Add(1) == 50 {
			return -far
		}
		return 0
	}}
	ahead := &fakeNode{lag: withLag(-far), before: func(w http.ResponseWriter, r *http.Request) bool { // it answers after the start
		early := reads.Load() < 100
		if early {
			refuse(w, http.StatusInternalServerError, 13, "panic")
		}
		return early
	}}
	r := network{first: lies, second: &fakeNode{}}.mustProbe(t, probe.Options{Endpoints: []string{first, second}})
	expect.NoDiff(t, r.Endpoints[0].Problems, []probe.Count{{Problem: "names a block out of reach", Samples: 1}}, "problems of the node that lies once")
	expect.Equal(t, r.Endpoints[1].Behind.At0, 1, "share of the other's samples at the newest block")
	reads.Store(0)
	lies.lag = func(*http.Request) int64 { reads.Add(1); return 0 }
	r = network{first: lies, second: ahead}.mustProbe(t, probe.Options{Endpoints: []string{first, second}, ChainID: "chain-1"})
	expect.Equal(t, r.Endpoints[1].Behind.At0, 1, "share of the samples at the newest block of a node that is far ahead")
	if behind := r.Endpoints[0].Behind.More; behind < 0.5 {
		t.Errorf("share of the other's samples behind = %v, want at least 0.5", behind)
	}
}

func TestTipNamesBlocksAndIsNotMeasured(t *testing.T) {
	n := network{first: &fakeNode{}, second: &fakeNode{lag: withLag(3)}}
	alone := n.mustProbe(t, probe.Options{Endpoints: []string{second}})
	expect.Equal(t, alone.Endpoints[0].Behind.At0, 1, "share at the newest block without another server")
	r := n.mustProbe(t, probe.Options{Endpoints: []string{second}, Tip: first})
	expect.Equal(t, len(r.Endpoints), 1, "number of results")
	if b := r.Endpoints[0].Behind; b.More < 0.85 || b.At2 < 0.05 || b.Most != 3 {
		t.Errorf("behind = %+v, want 3 blocks, and 2 until the tip names a block", b)
	}
}

func TestStepsBackwardAreCountedByConnection(t *testing.T) {
	var reads atomic.Int64
	tests := []struct {
		name                string
		lag                 func(r *http.Request) int64
		onConnection, onAny bool
	}{
		{"never", withLag(0), false, false},
		{"on every second response", func(*http.Request) int64 { return reads.Add(1) % 2 * 2 }, true, true},
		{"on fresh connections", func(r *http.Request) int64 { return int64(connectionOf(r) % 2 * 2) }, false, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			steps := network{first: &fakeNode{lag: tt.lag}}.mustProbe(t, probe.Options{Endpoints: []string{first}}).Endpoints[0].StepsBackward
			expect.Equal(t, steps.Connection > 0, tt.onConnection, "steps backward on one connection (%d)", steps.Connection)
			expect.Equal(t, steps.All > 0, tt.onAny, "steps backward over all (%d)", steps.All)
		})
	}
}

func TestUnusableOptionsAndServersOfOtherOrUnknownChainsAreRefused(t *testing.T) {
	unknown := &fakeNode{before: func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path == nodeInfo {
			refuse(w, http.StatusNotImplemented, 12, "Not Implemented")
		}
		return r.URL.Path == nodeInfo
	}}
	execution := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32601,"message":"the method does not exist"}}`)
	})
	asked := 0
	flaky := &fakeNode{before: func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != nodeInfo {
			return false
		}
		if asked++; asked%3 != 0 {
			http.Error(w, "Bad Gateway", http.StatusBadGateway)
		}
		return asked%3 != 0
	}}
	hangs := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	n := network{first: &fakeNode{}, second: &fakeNode{chain: "chain-2"}, third: unknown, fourth: execution, fifth: flaky, sixth: hangs}
	tests := []struct {
		name string
		o    probe.Options
		want string // part of the error; "" for none
	}{
		{"one chain", probe.Options{Endpoints: []string{first}, Tip: first, Against: first}, ""},
		{"other chain", probe.Options{Endpoints: []string{first, second}}, `127.0.0.1:2 serves chain "chain-2" instead of "chain-1"`},
		{"other chain of the tip", probe.Options{Endpoints: []string{first}, Tip: second}, `serves chain "chain-2"`},
		{"other chain of the trusted node", probe.Options{Endpoints: []string{first}, Against: second}, `serves chain "chain-2"`},
		{"other chain than the given one", probe.Options{Endpoints: []string{first}, ChainID: "chain-2"}, `serves chain "chain-1" instead of "chain-2"`},
		{"unknown chain", probe.Options{Endpoints: []string{first, third}}, "127.0.0.1:3 does not name its chain"},
		{"chain that two of three responses do not name", probe.Options{Endpoints: []string{first, fifth}}, ""},
		{"server that does not respond", probe.Options{Endpoints: []string{sixth}}, "127.0.0.1:6: no response within 5s"},
		{"unknown chain with a given id", probe.Options{Endpoints: []string{first, third}, ChainID: "chain-1"}, ""},
		{"unknown chain of a single server", probe.Options{Endpoints: []string{third}}, ""},
		{"two endpoints with one name", probe.Options{Endpoints: []string{"a=" + first, "a=" + third}, ChainID: "chain-1"}, "have the name a"},
		{"no URL", probe.Options{Endpoints: []string{"127.0.0.1:1"}}, "is not an http or https URL"},
		{"no server", probe.Options{Endpoints: []string{"http://127.0.0.1:9"}}, "127.0.0.1:9: connection refused"},
		{"wrong base path", probe.Options{Endpoints: []string{first + "/base"}}, "127.0.0.1:1: REST of the Cosmos SDK without the paths that the probe reads"},
		{"execution client", probe.Options{Endpoints: []string{fourth}}, "127.0.0.1:4: no API of a node was found"},
		{"no endpoint", probe.Options{}, "want at least one URL"},
		{"longer time between reads than a timer has", probe.Options{Endpoints: []string{first}, Rate: 1e-12}, "0.001 to 1000 reads per second"},
		{"longest time between reads", probe.Options{Endpoints: []string{first}, Rate: 0.001}, ""},
		{"path without a slash", probe.Options{Endpoints: []string{first}, Paths: []string{poolPath, "pool"}}, `path is "pool"; want one that begins with /`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.o.For = time.Second
			_, err := n.probe(t, tt.o, 0)
			if tt.want == "" {
				expect.NoError(t, err)
			} else if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error = %v, want %q in it", err, tt.want)
			}
		})
	}
}

// A node that commits a block may answer with the state of the new block under the height of the one before.
func TestResponsesAreComparedAfterALaterBlock(t *testing.T) {
	early := func(w http.ResponseWriter, r *http.Request, height int64) {
		if r.Header.Get(heightHeader) != "" && height == newest() {
			height++
		}
		fmt.Fprintf(w, `{"pool":{"n":%d}}`, height)
	}
	r := network{first: &fakeNode{answer: early}}.mustProbe(t, probe.Options{Endpoints: []string{first}, Against: first}).Endpoints[0]
	for name, c := range map[string]probe.Comparison{"pinned": r.Pinned, "trusted node": *r.Against} {
		if c.Compared < 10 || c.Equal != c.Compared {
			t.Errorf("comparison with %s = %+v, want at least 10, all equal", name, c)
		}
	}
}

func TestDifferencesNamePathHeightAndField(t *testing.T) {
	wrong := func(w http.ResponseWriter, r *http.Request, height int64) {
		if r.Header.Get(heightHeader) == "" {
			fmt.Fprintf(w, `{"page":{"next_key":"first"},"pool":{"a":1.0,"list":[{"x":"1"},{"x":"2"}],"z":"first"}}`)
			return
		}
		fmt.Fprintf(w, `{ "page": {"next_key":"second"}, "pool": {"z":"second", "list":[{"x":"1"},{"x":"3"}], "a":1e0}}`)
	}
	n := network{first: &fakeNode{answer: wrong}, second: &fakeNode{answer: wrong}}
	r := n.mustProbe(t, probe.Options{Endpoints: []string{first}, Against: second, Paths: []string{poolPath + "?a=b"}}).Endpoints[0]
	for name, c := range map[string]probe.Comparison{"pinned": r.Pinned, "trusted node": *r.Against} {
		if c.Equal != 0 || len(c.Differences) == 0 {
			t.Fatalf("comparison with %s = %+v, want only differences", name, c)
		}
		d := c.Differences[0]
		if d.Height < 1000 || d.Height > 1030 {
			t.Errorf("height of the difference with %s = %d, want a block of the run", name, d.Height)
		}
		d.Height = 0
		expect.Equal(t, d, probe.Difference{Path: poolPath + "?a=b", Field: "pool.list[1].x", Got: `"2"`, Want: `"3"`}, "difference with %s", name)
	}
	expect.Contains(t, write(t, func(w io.Writer) error { return (&probe.Report{Endpoints: []probe.Result{r}}).WriteTable(w, false) }),
		`pool.list[1].x is "2", want "3"`, "table")
}

func TestResponsesInRandomOrderAreNotCompared(t *testing.T) {
	r := network{first: &fakeNode{}}.mustProbe(t, probe.Options{Endpoints: []string{first}, Paths: []string{"/cosmos/auth/v1beta1/module_accounts?a=b"}}).Endpoints[0]
	expect.Equal(t, r.Pinned.Compared, 0, "comparisons")
	expect.Equal(t, r.Named, r.Samples, "samples that name a block")
}

// A cache that ignores the header for the height would serve an old response to its clients.
func TestReadsAtHeightHaveURLsOfTheirOwn(t *testing.T) {
	var pinned, shared atomic.Int64
	node := &fakeNode{before: func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get(heightHeader) != "" {
			pinned.Add(1)
			if !strings.Contains(r.URL.RawQuery, r.Header.Get(heightHeader)) {
				shared.Add(1)
			}
		}
		return false
	}}
	network{first: node}.mustProbe(t, probe.Options{Endpoints: []string{first}, Against: first})
	if pinned.Load() == 0 || shared.Load() > 0 {
		t.Errorf("%d of %d reads at a height have the URL of a read at the newest block, want none", shared.Load(), pinned.Load())
	}
}

func TestFailuresAndLatencies(t *testing.T) {
	var reads atomic.Int64
	node := &fakeNode{before: func(w http.ResponseWriter, r *http.Request) bool {
		time.Sleep(30 * time.Millisecond)
		fail := !strings.HasPrefix(r.URL.Path, poolPath) && reads.Add(1) > 20 && reads.Load()%10 == 0
		if fail {
			http.Error(w, "<html>", http.StatusServiceUnavailable)
		}
		return fail
	}}
	r := expect.Value(network{first: node}.probe(t, probe.Options{Endpoints: []string{first}}, 50*time.Millisecond))(t).Endpoints[0]
	expect.NoDiff(t, r.Problems, []probe.Count{{Problem: "status 503", Samples: r.Failures}}, "problems")
	if r.Failures < 10 || r.FailureShare < 0.03 || r.FailureShare > 0.1 {
		t.Errorf("failures = %d of %d (%v), want about 22", r.Failures, r.Samples, r.FailureShare)
	}
	expect.Equal(t, r.Latency, probe.Latency{P50: 30, P99: 30, FreshP50: 80, FreshP99: 80}, "latency")
}

func TestReadThatHangsDelaysTheOthersOnItsConnection(t *testing.T) {
	began := time.Date(2000, 1, 1, 0, 0, 30, 0, time.UTC)
	node := &fakeNode{before: func(_ http.ResponseWriter, r *http.Request) bool {
		if wait := time.Until(began.Add(2 * time.Second)); time.Now().After(began) && wait > 0 {
			time.Sleep(wait)
		}
		return false
	}}
	r := network{first: node}.mustProbe(t, probe.Options{Endpoints: []string{first}}).Endpoints[0]
	expect.Equal(t, r.Failures, 0, "failures during a pause shorter than the timeout")
	if r.Samples < 299 || r.Latency.P99 < 1000 {
		t.Errorf("samples = %d, p99 = %v ms; want all reads sent, and the wait of those in the pause in p99", r.Samples, r.Latency.P99)
	}
}

func TestAnnouncedBlocks(t *testing.T) {
	stream := func(w http.ResponseWriter, r *http.Request) bool {
		if r.Header.Get("Accept") != "text/event-stream" {
			return false
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for sent := newest(); r.Context().Err() == nil && sent < 1025; {
			if now := newest(); now > sent {
				sent = now
				fmt.Fprintf(w, "event: block\ndata: {\"height\":%d,\"session\":\"1\"}\n\n", sent)
			}
			w.(http.Flusher).Flush()
			time.Sleep(5 * time.Millisecond)
		}
		return true
	}
	var late atomic.Int64 // number of refused reads
	slow := func(w http.ResponseWriter, r *http.Request) bool {
		pinned := r.Header.Get(heightHeader) == fmt.Sprint(newest()) && late.Add(1)%4 != 0
		if pinned {
			refuse(w, http.StatusInternalServerError, 2, "cannot query with height in the future")
		}
		return pinned || stream(w, r)
	}
	n := network{first: &fakeNode{before: stream}, second: &fakeNode{before: slow}, third: &fakeNode{}}
	r := n.mustProbe(t, probe.Options{Endpoints: []string{first, second, third}})
	at := func(i int) probe.Announced { return r.Endpoints[i].Announced }
	expect.Equal(t, at(0), probe.Announced{Offered: true, Blocks: 25}, "announced, readable at once")
	expect.Equal(t, at(1), probe.Announced{Offered: true, Blocks: 25, Late: 25, P50: 70, Most: 70}, "announced, readable later")
	expect.Equal(t, at(2), probe.Announced{}, "announced by a node without streams")
	table := write(t, func(w io.Writer) error { return r.WriteTable(w, false) })
	expect.Contains(t, table, "not offered", "table")
	colored := write(t, func(w io.Writer) error { return r.WriteTable(w, true) })
	expect.Contains(t, colored, "\x1b[32m", "table in color")
	if strings.Contains(colored, "not offered\x1b") {
		t.Errorf("table in color = %q, want no color where nothing was measured", colored)
	}
}

func TestDocumentedShapeEqualsThatOfNode(t *testing.T) {
	const fromNode = `{"code":200,"msg":{"validators":[{"operator_address":"0x1","jailed":true}],"pagination":{}},"error":""}`
	shaped := expect.Value(documented.Shape([]byte(fromNode), documented.Validators))(t).Body
	serve := func(body string, names bool) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("X-Block-Height") != "" {
				body = fromNode
			}
			if names {
				w.Header().Set("X-Block-Height", fmt.Sprint(newest()))
			}
			fmt.Fprint(w, body)
		})
	}
	n := network{first: serve(string(shaped), true), second: serve(fromNode, false)}
	r := n.mustProbe(t, probe.Options{Endpoints: []string{first}, Against: second, ChainID: "story-1", Paths: []string{"/staking/validators"}}).Endpoints[0]
	expect.Equal(t, r.API, "story", "API")
	if r.Against.Compared == 0 || r.Against.Equal != r.Against.Compared {
		t.Errorf("comparison with the node = %+v, want all equal", *r.Against)
	}
}

func TestReportOfOneRunIsStable(t *testing.T) {
	n := network{first: &fakeNode{}, second: &fakeNode{lag: withLag(1)}}
	o := probe.Options{Endpoints: []string{"a<b>&=" + first, second}, Against: first}
	before := n.mustProbe(t, o)
	after := n.mustProbe(t, o)
	expect.Equal(t, encode(t, after), encode(t, before), "JSON of the second run")
	expect.Equal(t, write(t, after.WritePicture), write(t, before.WritePicture), "picture of the second run")
	expect.Equal(t, write(t, func(w io.Writer) error { return after.WriteTable(w, true) }), write(t, func(w io.Writer) error { return before.WriteTable(w, true) }), "table of the second run")
	for _, member := range []string{`"chain": "chain-1"`, `"began": "2000-01-01T00:00:00Z"`, `"share_at_0"`, `"one_connection"`, `"fresh_p99"`, `"differences": []`, `"problems": []`} {
		expect.Contains(t, encode(t, before), member, "JSON")
	}
}

func TestAllAPIsOfSimulatedChainAreProbed(t *testing.T) {
	for _, tt := range []struct {
		dialect   devnet.Dialect
		rest, rpc string // measured APIs
		named     bool   // by REST
	}{{devnet.Story, "story", "rpc", false}, {devnet.Cosmos, "cosmos", "rpc", true}} {
		t.Run(string(tt.dialect), func(t *testing.T) {
			t.Parallel()
			d := devnettest.Start(t, devnet.Options{Dialect: tt.dialect, Interval: 100 * time.Millisecond, StatusLead: -1})
			o := probe.Options{
				Endpoints: []string{"rest=" + d.NodeURL(), "rpc=" + d.CometURL()}, Tip: d.CometURL(), Against: d.NodeURL(),
				ChainID: d.ChainID(), For: 2 * time.Second, Rate: 50,
			}
			r := expect.Value(probe.Run(t.Context(), o))(t)
			rest, rpc := r.Endpoints[0], r.Endpoints[1]
			expect.Equal(t, rest.API, tt.rest, "API of the REST server")
			expect.Equal(t, rpc.API, tt.rpc, "API of the RPC server")
			expect.Equal(t, rest.Named > 0, tt.named, "responses of the REST server name blocks")
			expect.Equal(t, rpc.Announced.Offered, true, "the RPC server announces blocks")
			for _, e := range r.Endpoints {
				if e.Samples == 0 || e.Failures > 0 || e.StepsBackward.All > 0 || e.Pinned.Equal != e.Pinned.Compared {
					t.Errorf("result = %+v, want samples, no failure, no step backward and equal responses", e)
				}
			}
			if rpc.Named == 0 || rpc.Announced.Blocks == 0 {
				t.Errorf("named = %d, announced = %+v; want blocks", rpc.Named, rpc.Announced)
			}
			if tt.named && (rest.Against == nil || rest.Against.Equal != rest.Against.Compared) {
				t.Errorf("comparison with the node = %+v, want all equal", rest.Against)
			}
			expect.Equal(t, rpc.Against == nil, true, "the RPC server is not compared with a REST server")
		})
	}
}
