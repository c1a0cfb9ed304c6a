package cosmos_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
	"github.com/tipcache/tipcache/upstream/devnet/state"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node/nodetest"
)

// An exchange is a recorded exchange with its check.
type exchange struct{ nodetest.Exchange }

// A clock is the state of a node that gets no new blocks.
type clock struct {
	height, oldest int64
	restarted      bool
}

func (c clock) Now() state.Clock {
	return state.Clock{Height: c.height, Oldest: c.oldest, Stored: c.height, Restarted: c.restarted}
}

func (c clock) Forks(int64) int64 { return 0 }

func (c clock) Block(h int64) (at time.Time, hash, appHash []byte) {
	sum, app := sha256.Sum256([]byte(fmt.Sprint(h))), sha256.Sum256([]byte(fmt.Sprint(-h)))
	return time.Unix(1_780_000_000+h, 0), sum[:], app[:]
}

// recordedAt returns the node of a recording, by the kind in its name.
func recordedAt(chain *cosmos.Chain, name string) http.Handler {
	kind, _, _ := strings.Cut(name, "_")
	switch kind {
	case "nogrpc":
		return chain.Handler(clock{572, 1, false}, true, func(string, int64) {})
	case "pruned":
		return chain.Handler(clock{217, 200, false}, false, func(string, int64) {})
	case "restart":
		return chain.Handler(clock{869, 1, true}, false, func(string, int64) {})
	}
	return chain.Handler(clock{870, 1, false}, false, func(string, int64) {})
}

// exceptions are recordings to which the simulation responds differently, with the reason.
var exceptions = map[string]string{
	"pruned_txs_block_18":           "that chain had other transactions in the block",
	"method_POST_form_on_get_route": "the simulation reads no forms",
	"method_override":               "the simulation reads no forms",
	"addr_balances_double_slash":    "the simulation does not redirect",
	"path_dotdot":                   "the simulation does not redirect",
	"hdr_grpc_timeout":              "the simulation ignores the header",
	"post_broadcast_same_again":     "nothing was broadcast before it",
	"ok_validatorset_latest_limit1": "pages of CometBFT have no next key",
}

func TestSimulationMatchesRecordedNode(t *testing.T) {
	chain := cosmos.NewChain(state.Options{ChainID: "devnet-1", Delegators: 1530})
	for _, x := range nodetest.Exchanges(t, "testdata/exchanges.jsonl") {
		if strings.HasPrefix(x.Name, "rpc_") || strings.HasPrefix(x.Name, "cors_") {
			continue // from CometBFT, or from a node with CORS
		}
		if why, ok := exceptions[x.Name]; ok {
			t.Logf("skipped %s: %s", x.Name, why)
			continue
		}
		t.Run(x.Name, func(t *testing.T) {
			if strings.HasPrefix(x.Name, "post_") {
				chain = cosmos.NewChain(state.Options{ChainID: "devnet-1", Delegators: 1530}) // without broadcast transactions
			}
			exchange{x}.check(t, recordedAt(chain, x.Name))
		})
	}
}

// check sends the request and compares status, headers, error texts and shape.
func (x exchange) check(t *testing.T, node http.Handler) {
	w := httptest.NewRecorder()
	node.ServeHTTP(w, x.request(t))
	body := w.Body.String()
	if w.Code != x.Status {
		t.Fatalf("status = %d, want %d\n%s\n%s", w.Code, x.Status, body, x.Raw)
	}
	for _, name := range []string{"Content-Type", "X-Cosmos-Block-Height", "Grpc-Metadata-X-Cosmos-Block-Height", "Grpc-Metadata-Content-Type", "Location"} {
		if len(x.Answer) > 0 {
			expect.Equal(t, w.Header().Get(name), x.Answer[name], "%s", name)
		}
	}
	if w.Header().Get("X-Server-Time") == "" {
		t.Error("X-Server-Time is missing")
	}
	switch {
	case x.Method == http.MethodHead || !strings.HasPrefix(x.Raw, "{"):
	case x.Status != http.StatusOK:
		expect.NoDiff(t, body, x.Raw, "error")
	default:
		want, got := shapeOf(t, x.Raw), shapeOf(t, body)
		expect.NoDiff(t, alike(got, want), alike(want, got), "shape")
	}
}

func (x exchange) request(t *testing.T) *http.Request {
	t.Helper()
	target := "http://node" + x.Path
	if x.Query != "" {
		target += "?" + x.Query
	}
	r := expect.Value(http.NewRequestWithContext(t.Context(), x.Method, "http://node/", strings.NewReader(x.Body)))(t)
	path := expect.Value(url.PathUnescape(x.Path))(t)
	r.RequestURI = strings.TrimPrefix(target, "http://node")
	r.URL = &url.URL{Path: path, RawPath: x.Path, RawQuery: x.Query}
	for _, h := range x.Headers {
		r.Header.Add(h[0], h[1])
	}
	return r
}

// alike returns a shape without the members of lists that are empty in other, and without null where other has a value: there
// the chains differ, not the nodes.
func alike(shape, other []string) []string {
	paths := map[string]bool{}
	for _, line := range other {
		path, _, _ := strings.Cut(line, " ")
		paths[path] = true
	}
	var kept []string
	for _, line := range shape {
		path, kind, _ := strings.Cut(line, " ")
		list, _, inList := strings.Cut(path, "[]")
		switch {
		case inList && paths[list] && !paths[list+"[]"]:
		case kind == "<nil>" && paths[path]:
		default:
			kept = append(kept, line)
		}
	}
	return kept
}

// shapeOf returns the distinct members of a JSON value with their types.
func shapeOf(t *testing.T, body string) []string {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(body), &value); err != nil {
		t.Fatalf("decode %s: %v", body, err)
	}
	seen := map[string]bool{}
	collect("", value, seen)
	return slices.Sorted(maps.Keys(seen))
}

func collect(path string, value any, seen map[string]bool) {
	switch v := value.(type) {
	case map[string]any:
		seen[path+" object"] = true
		for name, member := range v {
			collect(path+"."+name, member, seen)
		}
	case []any:
		seen[path+" list"] = true
		for _, item := range v {
			collect(path+"[]", item, seen)
		}
	default:
		seen[fmt.Sprintf("%s %T", path, v)] = true
	}
}
