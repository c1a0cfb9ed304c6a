package devnet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/devnettest"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestOutageEndsOnTheSamePort(t *testing.T) {
	for _, outage := range []string{devnet.Refuse, devnet.Reset} {
		d := start(t, devnet.Options{Interval: -1})
		before := d.NodeURL()
		expect.NoError(t, d.SetFaults(devnet.Faults{Node: devnet.Fault{Outage: outage}}))
		_, err := client.Get(before + "/staking/params")
		refused, reset := errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
		if refused != (outage == devnet.Refuse) || reset != (outage == devnet.Reset) {
			t.Errorf("error during outage %s = %v", outage, err)
		}
		expect.NoError(t, d.SetFaults(devnet.Faults{}))
		expect.Equal(t, d.NodeURL(), before, "URL after the restart")
		get(t, d, "/staking/params", 0)
	}
}

func TestOutageCanBeginAtStart(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Faults: devnet.Faults{Node: devnet.Fault{Outage: devnet.Refuse}}})
	if _, err := client.Get(d.NodeURL() + "/staking/params"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("error during the outage = %v, want %v", err, syscall.ECONNREFUSED)
	}
	expect.NoError(t, d.SetFaults(devnet.Faults{}))
	get(t, d, "/staking/params", 0)
}

func TestTakenPortIsReportedAtOnce(t *testing.T) {
	taken := strings.TrimPrefix(start(t, devnet.Options{Interval: -1}).NodeURL(), "http://")
	began := time.Now()
	err := expect.Value(devnet.New(devnet.Options{Interval: -1, NodeAddr: taken}))(t).Start()
	if took := time.Since(began); !errors.Is(err, syscall.EADDRINUSE) || took > 10*time.Second {
		t.Errorf("start on a taken port = %v after %v, want %v at once", err, took, syscall.EADDRINUSE)
	}
}

func TestLatencyDelaysAnswers(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	expect.NoError(t, d.SetFaults(devnet.Faults{Node: devnet.Fault{Latency: 50 * time.Millisecond, Jitter: 10 * time.Millisecond}}))
	start := time.Now()
	get(t, d, "/staking/params", 0)
	if took := time.Since(start); took < 50*time.Millisecond {
		t.Errorf("response took %v, want at least 50ms", took)
	}
}

func TestStalledNodeNeverAnswers(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	expect.NoError(t, d.SetFaults(devnet.Faults{Node: devnet.Fault{Stall: true}}))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	r := expect.Value(http.NewRequestWithContext(ctx, http.MethodGet, d.NodeURL()+"/staking/params", nil))(t)
	_, err := client.Do(r)
	expect.ErrorIs(t, err, context.DeadlineExceeded, "request to the stalled node")
}

func TestErrorsAndNonsenseReplaceAnswers(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	expect.NoError(t, d.SetFaults(devnet.Faults{
		Node:     devnet.Fault{ErrorRate: 1},
		Comet:    devnet.Fault{Nonsense: true},
		Provider: devnet.Fault{ErrorRate: 1, ErrorStatus: 429},
	}))
	status, _ := fetch(t, d.NodeURL()+"/staking/params", 0)
	expect.Equal(t, status, http.StatusServiceUnavailable, "status of the node")
	if _, body := fetch(t, d.CometURL()+"/status", 0); json.Valid([]byte(body)) {
		t.Errorf("body of CometBFT = %s, want it not to be JSON", body)
	}
	resp := expect.Value(client.Get(d.MetadataURL() + "/nft/v3/key/getContractMetadata?contractAddress=" + v5))(t)
	defer resp.Body.Close()
	expect.Equal(t, resp.StatusCode, http.StatusTooManyRequests, "status of the provider (%v)", resp.Header)
}

func TestFaultsAreSetOverHTTP(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	put := func(body string) (int, string) {
		r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodPut, d.ControlURL()+"/devnet/faults", strings.NewReader(body)))(t)
		resp := expect.Value(client.Do(r))(t)
		defer resp.Body.Close()
		answer := expect.Value(io.ReadAll(resp.Body))(t)
		return resp.StatusCode, string(answer)
	}
	put(`{"node":{"latency":"10ms","error_rate":0.5}}`)
	_, got := put(`{"comet":{"stall":true}}`)
	want := "node:\n    latency: 10ms\n    error_rate: 0.5\ncomet:\n    stall: true\nprovider: {}\nevm: {}\n"
	expect.NoDiff(t, got, want, "faults")
	for _, bad := range []string{`{"nodes":{}}`, `{"node":{"lag":1}}`, `{"node":{"latency":"long"}}`, `{"node":{"outage":"maybe"}}`, `{"node":{"error_rate":20}}`, `{"node":{"stall":true},"evm":{"outage":"maybe"}}`, `[`} {
		status, answer := put(bad)
		expect.Equal(t, status, http.StatusBadRequest, "status of %s (%s)", bad, answer)
	}
	_, got = put(`{}`)
	expect.NoDiff(t, got, want, "faults after invalid ones")
}

func TestHaltedChainAnswersWithOldState(t *testing.T) {
	d := start(t, devnet.Options{Interval: 5 * time.Millisecond, StatusLead: -1})
	d.Halt()
	height := d.Height() + 1 // the block in progress may still arrive
	time.Sleep(40 * time.Millisecond)
	if d.Height() > height {
		t.Errorf("height of the halted chain = %d, want at most %d", d.Height(), height)
	}
	get(t, d, "/staking/pool", 0)
	d.Resume()
	expect.Eventually(t, "a block after Resume", func() bool { return d.Height() > height })
}

func TestStatsCountRequestsByPath(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	get(t, d, "/staking/pool", 0)
	get(t, d, "/staking/pool", 1000)
	d.Advance(1)
	get(t, d, "/staking/pool", 0)
	get(t, d, "/staking/validators?pagination.limit=1", 0)
	fetch(t, d.NodeURL()+"/nope", 0)
	var got devnet.Stats
	_, body := fetch(t, d.ControlURL()+"/devnet/stats", 0)
	decode(t, body, &got)
	want := devnet.Stats{Node: devnet.NodeStats{Requests: 5, Reads: 4, ReadCounts: []devnet.ReadCount{
		{URI: "/staking/pool", Height: 1000, Count: 2},
		{URI: "/staking/pool", Height: 1001, Count: 1},
		{URI: "/staking/validators?pagination.limit=1", Height: 1001, Count: 1},
	}}}
	expect.NoDiff(t, got, want, "stats")
	expect.Equal(t, d.Stats().Node.Of("/staking/pool"), 3, "reads of the pool")
}

func TestLargeHeadersAreRefused(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, d.NodeURL()+"/staking/params", nil))(t)
	r.Header.Set("X-Fill", strings.Repeat("a", 20_000))
	resp := expect.Value(client.Do(r))(t)
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusRequestHeaderFieldsTooLarge || !bytes.HasPrefix(body, []byte("431 ")) {
		t.Errorf("response to large headers = %d %s, want 431", resp.StatusCode, body)
	}
}

func TestMoreNodesShareTheChain(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, KeepRecent: 10})
	late := devnettest.AddNode(t, d)
	late.SetLag(3)
	for height, want := range map[int64]int{986: 500, 987: 200, 997: 200, 998: 500} {
		status, body := fetch(t, late.RESTURL()+"/staking/pool", height)
		expect.Equal(t, status, want, "status at %d (%s)", height, body)
		if status == http.StatusOK && height > 990 && body != get(t, d, "/staking/pool", height) {
			t.Errorf("pool at %d differs between the nodes", height)
		}
	}
	expect.Equal(t, statusHeight(t, late.CometURL()), "997", "height in the status")
	conn := dial(t, late.CometURL())
	send(t, conn, 1, "subscribe", newHeader)
	receive(t, conn)
	late.SetLag(2)
	expect.Equal(t, receive(t, conn).Result.Data.Value.Header.Height, "998", "height after the stall")
}

func TestInvalidFaultIsRefused(t *testing.T) {
	d := start(t, devnet.Options{})
	for _, fault := range []devnet.Fault{{Outage: "nap"}, {ErrorStatus: 99}} {
		if err := d.SetFaults(devnet.Faults{EVM: fault}); err == nil || d.Faults() != (devnet.Faults{}) {
			t.Errorf("SetFaults(%+v) = %v with faults %+v, want an error and none", fault, err, d.Faults())
		}
	}
}

func TestNodesCanBeAddedWhileTheMainNodeIsUsed(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1})
	var adding sync.WaitGroup
	defer adding.Wait()
	adding.Go(func() { devnettest.AddNode(t, d) }) // the race detector finds a read of a list that grows
	for range 1000 {
		d.Faults()
	}
}
