package cosmos_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
	"github.com/tipcache/tipcache/upstream/devnet/state"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node/nodetest"
)

// An exchange is a recorded one.
type exchange struct{ nodetest.Exchange }

// A clock is a node that stands still.
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

// recordedAt is the node that a recording was made on, by the kind of the recording.
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

// exceptions are recordings that the simulation answers otherwise, and why.
var exceptions = map[string]string{
	"pruned_txs_block_18":           "that chain had other transactions in the block",
	"method_POST_form_on_get_route": "no form is read",
	"method_override":               "no form is read",
	"addr_balances_double_slash":    "it does not redirect",
	"path_dotdot":                   "it does not redirect",
	"hdr_grpc_timeout":              "the header is not read",
	"post_broadcast_same_again":     "nothing was broadcast before it",
	"ok_validatorset_latest_limit1": "CometBFT's pages lead to no next one",
}

func TestSimulationMatchesRecordedNode(t *testing.T) {
	chain := cosmos.NewChain(state.Options{ChainID: "devnet-1", Delegators: 1530})
	for _, x := range nodetest.Exchanges(t, "testdata/exchanges.jsonl") {
		if strings.HasPrefix(x.Name, "rpc_") || strings.HasPrefix(x.Name, "cors_") {
			continue // those are CometBFT's, or of a node that answers pages of other sites
		}
		if why, ok := exceptions[x.Name]; ok {
			t.Logf("%s is left out: %s", x.Name, why)
			continue
		}
		t.Run(x.Name, func(t *testing.T) {
			if strings.HasPrefix(x.Name, "post_") {
				chain = cosmos.NewChain(state.Options{ChainID: "devnet-1", Delegators: 1530}) // nothing broadcast yet
			}
			exchange{x}.check(t, recordedAt(chain, x.Name))
		})
	}
}

// check makes the request anew and compares status, headers, error texts and shape.
func (x exchange) check(t *testing.T, node http.Handler) {
	w := httptest.NewRecorder()
	node.ServeHTTP(w, x.request(t))
	body := w.Body.String()
	if w.Code != x.Status {
		t.Fatalf("got %d, want %d\n%s\n%s", w.Code, x.Status, body, x.Raw)
	}
	for _, name := range []string{"Content-Type", "X-Cosmos-Block-Height", "Grpc-Metadata-X-Cosmos-Block-Height", "Grpc-Metadata-Content-Type", "Location"} {
		if diff := gocmp.Diff(x.Answer[name], w.Header().Get(name)); diff != "" && len(x.Answer) > 0 {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if w.Header().Get("X-Server-Time") == "" {
		t.Error("no X-Server-Time")
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

// alike is a shape without what the other cannot have: members of what is in a list
// that is empty there. Where one is null and the other is not, the chains differ, not the nodes.
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

// shapeOf is a JSON value's members and their types, each once.
func shapeOf(t *testing.T, body string) []string {
	t.Helper()
	var value any
	if err := json.Unmarshal([]byte(body), &value); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	seen := map[string]bool{}
	collect("", value, seen)
	var shape []string
	for line := range seen {
		shape = append(shape, line)
	}
	slices.Sort(shape)
	return shape
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
