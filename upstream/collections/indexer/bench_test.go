package indexer_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/collections/postgrestest"
)

const (
	benchWindows = 10
	benchBlocks  = 1000 // in a window
	benchLogs    = 10   // in a block
)

// benchIP is the nth IP. Addresses have no order on the chain, and a store's
// index is to feel that.
func benchIP(n int) string {
	sum := sha256.Sum256(fmt.Append(nil, "ip ", n))
	return fmt.Sprintf("0x%x", sum[:20])
}

// benchWindow are the logs of a window as an endpoint sends them: registrations,
// each of an IP of its own, and every fourth a mint of one that was registered
// before. They belong to 2,000 collections, of which a few have most.
func benchWindow(h *history, window int) []byte {
	random := rand.New(rand.NewPCG(1, uint64(window)))
	logs := make([]map[string]any, 0, benchBlocks*benchLogs)
	for i := range benchBlocks * benchLogs {
		n := window*benchBlocks*benchLogs + i
		l := h.register()
		if i%4 == 3 {
			l = h.mint(benchIP(random.IntN(n/4+1)*4 + random.IntN(3)))
		} else {
			l.data = "0x" + word(benchIP(n)[2:]) + l.data[66:]
			l.topics[2] = "0x" + word(address(0xCC, int(2000*math.Pow(random.Float64(), 3)))[2:])
		}
		block := int64(window*benchBlocks + i/benchLogs + 1)
		logs = append(logs, map[string]any{
			"address": l.contract, "topics": l.topics, "data": l.data, "blockNumber": hexInt(block),
			"blockTimestamp": hexInt(seconds(block)), "blockHash": h.hash(faults{}, block), "transactionHash": h.hash(faults{}, int64(i)),
			"transactionIndex": "0x1", "logIndex": hexInt(int64(i % benchLogs)), "removed": false,
		})
	}
	body, _ := json.Marshal(logs)
	return body
}

// serveBench serves windows that are made beforehand.
func serveBench(b *testing.B) *httptest.Server {
	h := newHistory(1)
	windows := make([][]byte, benchWindows)
	for i := range windows {
		windows[i] = benchWindow(h, i)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		calls, batched, _ := readCalls(r.Body)
		if batched {
			fmt.Fprint(w, "[")
		}
		for i, c := range calls {
			if i > 0 {
				fmt.Fprint(w, ",")
			}
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":`, c.ID)
			switch c.Method {
			case "eth_chainId":
				fmt.Fprintf(w, `"%s"`, hexInt(1514))
			case "eth_blockNumber":
				fmt.Fprintf(w, `"%s"`, hexInt(benchWindows*benchBlocks))
			case "eth_getCode":
				fmt.Fprint(w, `"0x60"`)
			case "eth_getBlockByNumber":
				json.NewEncoder(w).Encode(h.header(faults{}, parseInt(text(c.Params[0]))))
			case "eth_getLogs":
				var filter struct{ FromBlock string }
				json.Unmarshal(c.Params[0], &filter)
				w.Write(windows[parseInt(filter.FromBlock)/benchBlocks])
			}
			fmt.Fprint(w, "}")
		}
		if batched {
			fmt.Fprint(w, "]")
		}
	}))
	b.Cleanup(s.Close)
	return s
}

func perSecond(b *testing.B, logs int) {
	b.ReportMetric(float64(logs)*float64(b.N)/b.Elapsed().Seconds(), "logs/s")
}

func BenchmarkDecode(b *testing.B) {
	logs := benchWindow(newHistory(1), 0)
	b.SetBytes(int64(len(logs)))
	for b.Loop() {
		if _, err := story.DecodeLogs(logs); err != nil {
			b.Fatal(err)
		}
	}
	perSecond(b, benchBlocks*benchLogs)
}

// noStore knows every id, and forgets what it is told.
type noStore struct{ cursor ledger.Cursor }

func (s *noStore) Cursor(context.Context) (ledger.Cursor, error) { return s.cursor, nil }

func (s *noStore) Owners(_ context.Context, ips []ledger.Address, _ []ledger.Hash) (ledger.Owners, error) {
	found := ledger.Owners{IPs: map[ledger.Address]ledger.Address{}}
	for _, ip := range ips {
		found.IPs[ip] = ledger.Address{1}
	}
	return found, nil
}

func (s *noStore) Apply(_ context.Context, _ ledger.Cursor, t ledger.Tally) error {
	s.cursor = t.Cursor
	return nil
}

func (*noStore) Trail(context.Context, ledger.Cursor) ([]ledger.Cursor, error) { return nil, nil }

func (*noStore) StepBack(context.Context, ledger.Cursor, ledger.Cursor) error { return nil }
func (*noStore) MarkIncomplete(context.Context) error                         { return nil }

// BenchmarkIndex fills empty stores with 100,000 logs in windows of 10,000, that
// come over HTTP from a server in the same process. What that costs, and all
// else but the store, is in "no store".
func BenchmarkIndex(b *testing.B) {
	at := func(url func(testing.TB) string) func(testing.TB) indexer.Store {
		return func(b testing.TB) indexer.Store { return open(b, url(b)) }
	}
	for _, test := range []struct {
		name string
		open func(testing.TB) indexer.Store
	}{
		{"no store", func(testing.TB) indexer.Store { return &noStore{} }},
		{"sqlite memory", at(func(testing.TB) string { return "sqlite::memory:" })},
		{"sqlite file", at(func(b testing.TB) string { return "sqlite:" + b.TempDir() + "/c.db" })},
		{"postgres", at(postgrestest.Schema)},
	} {
		b.Run(test.name, func(b *testing.B) {
			s := serveBench(b)
			for b.Loop() {
				b.StopTimer()
				o := indexer.Options{Options: evm.Options{Endpoints: []string{s.URL}, Window: benchBlocks}, Network: story, Store: test.open(b), From: 1}
				b.StartTimer()
				if err := index(b.Context(), o); err != nil {
					b.Fatal(err)
				}
			}
			perSecond(b, benchWindows*benchBlocks*benchLogs)
		})
	}
}
