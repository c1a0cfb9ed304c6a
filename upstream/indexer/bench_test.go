package indexer_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tipcache/tipcache/upstream/collections/postgrestest"
	"github.com/tipcache/tipcache/upstream/indexer"
)

const (
	benchWindows = 10
	benchBlocks  = 1000 // in a window
	benchLogs    = 10   // in a block
)

// benchWindow are the logs of a window as an endpoint sends them: registrations,
// each of an IP of its own, and every fourth a mint.
func benchWindow(h *history, window int) []byte {
	logs := make([]map[string]any, 0, benchBlocks*benchLogs)
	for i := range benchBlocks * benchLogs {
		l := h.register()
		ip := fmt.Sprintf("0x%040x", window*benchBlocks*benchLogs+i+1)
		if i%4 == 3 {
			l = h.mint(fmt.Sprintf("0x%040x", window*benchBlocks*benchLogs+i))
		} else {
			l.data = "0x" + word(ip[2:]) + l.data[66:]
		}
		block := int64(window*benchBlocks + i/benchLogs + 1)
		logs = append(logs, map[string]any{
			"address": l.contract, "topics": l.topics, "data": l.data, "blockNumber": hexInt(block),
			"blockTimestamp": hexInt(seconds(block)), "blockHash": h.hash(block), "transactionHash": h.hash(int64(i)),
			"transactionIndex": "0x1", "logIndex": "0x4", "removed": false,
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
		var calls []rpcCall
		json.NewDecoder(r.Body).Decode(&calls)
		for i, c := range calls {
			fmt.Fprintf(w, `%c{"jsonrpc":"2.0","id":%s,"result":`, "[,"[min(i, 1)], c.ID)
			switch c.Method {
			case "eth_chainId":
				fmt.Fprintf(w, `"%s"`, hexInt(1514))
			case "eth_blockNumber":
				fmt.Fprintf(w, `"%s"`, hexInt(benchWindows*benchBlocks))
			case "eth_getBlockByNumber":
				json.NewEncoder(w).Encode(h.header(parseInt(text(c.Params[0]))))
			case "eth_getLogs":
				var filter struct{ FromBlock string }
				json.Unmarshal(c.Params[0], &filter)
				w.Write(windows[parseInt(filter.FromBlock)/benchBlocks])
			}
			fmt.Fprint(w, "}")
		}
		fmt.Fprint(w, "]")
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

// BenchmarkIndex fills empty stores with 100,000 logs in windows of 10,000, that
// come over HTTP.
func BenchmarkIndex(b *testing.B) {
	stores := map[string]func(testing.TB) string{
		"sqlite memory": func(testing.TB) string { return "sqlite::memory:" },
		"sqlite file":   func(b testing.TB) string { return "sqlite:" + b.TempDir() + "/c.db" },
		"postgres":      postgrestest.Schema,
	}
	for name, url := range stores {
		b.Run(name, func(b *testing.B) {
			s := serveBench(b)
			for b.Loop() {
				b.StopTimer()
				o := indexer.Options{Endpoints: []string{s.URL}, Network: story, Store: open(b, url(b)), From: 1, Window: benchBlocks}
				b.StartTimer()
				if err := index(b.Context(), o); err != nil {
					b.Fatal(err)
				}
			}
			perSecond(b, benchWindows*benchBlocks*benchLogs)
		})
	}
}
