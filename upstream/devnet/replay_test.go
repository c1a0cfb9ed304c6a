package devnet_test

import (
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node/nodetest"
)

// An exchange is a recorded request to a real node with its response. Of a successful response it has the shape: the paths of
// all members with their types.
type exchange struct {
	Name       string            `json:"name"`
	Method     string            `json:"method"`
	URI        string            `json:"uri"`
	Headers    map[string]string `json:"headers"`
	Body       string            `json:"body"`
	Status     int               `json:"status"` // 0 means that the node closed the connection
	Type       string            `json:"type"`
	Location   string            `json:"location"`
	Height     int64             `json:"height"`
	Shape      int               `json:"shape"`
	Pagination string            `json:"pagination"`
	BodyOut    string            `json:"body_out"`
}

// excluded are recorded exchanges that the devnet does not imitate.
var excluded = map[string]string{
	"hdr_large_header":   "TestLargeHeadersAreRefused checks it",
	"rpc_block_latest":   "the devnet has no signatures of absent validators",
	"path_dotdot":        "the devnet redirects with another status",
	"path_double_slash":  "the devnet redirects with another status",
	"path_empty_segment": "the devnet redirects with another status",
	"rpc_block_garbage":  "the devnet has another error text",
}

func TestAnswersAsTheRealNodeDid(t *testing.T) {
	shapes := readShapes(t)
	o := devnet.Options{ChainID: "story-1001511", StartHeight: 228, Interval: -1, Delegators: 1305}
	d := start(t, o)
	o.KeepRecent = 20
	pruning := start(t, o)
	pruning.Node().SetLag(25)
	for _, x := range readExchanges(t) {
		if _, skip := excluded[x.Name]; skip {
			continue
		}
		pruning.Advance(max(0, x.Height-d.Height()))
		d.Advance(max(0, x.Height-d.Height()))
		base := d.NodeURL()
		switch {
		case strings.HasPrefix(x.Name, "rpc_"):
			base = d.CometURL()
		case strings.HasPrefix(x.Name, "pruned_"):
			base = pruning.NodeURL()
		}
		t.Run(x.Name, func(t *testing.T) { x.check(t, base, shapes) })
	}
}

// check sends the request and compares the responses.
func (x exchange) check(t *testing.T, base string, shapes [][]string) {
	resp, body, err := x.send(t, base)
	if x.Status == 0 {
		if err == nil {
			t.Fatalf("status = %d, want a closed connection", resp.StatusCode)
		}
		return
	}
	expect.NoError(t, err)
	got := []string{http.StatusText(resp.StatusCode), resp.Header.Get("Content-Type"), resp.Header.Get("Location")}
	want := []string{http.StatusText(x.Status), x.Type, x.Location}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Fatalf("status, type and location (-want +got):\n%s\n%s", diff, body)
	}
	if x.Status != http.StatusOK || x.Method == http.MethodHead {
		expect.NoDiff(t, string(body), x.BodyOut, "body")
		return
	}
	expect.NoDiff(t, shapeOf(t, body), shapes[x.Shape], "shape")
	x.checkPagination(t, body)
}

// checkPagination compares next keys and totals, except where they depend on
// generated addresses.
func (x exchange) checkPagination(t *testing.T, body []byte) {
	for _, generated := range []string{"v5_delegations", "validator_delegations", "queue"} {
		if strings.Contains(x.Name, generated) {
			return
		}
	}
	if x.Pagination == "" {
		return
	}
	var answer struct {
		Msg struct{ Pagination json.RawMessage }
	}
	expect.NoError(t, json.Unmarshal(body, &answer))
	expect.NoDiff(t, string(answer.Msg.Pagination), x.Pagination, "pagination")
}

// send sends the request byte for byte, even if its path is invalid.
func (x exchange) send(t *testing.T, base string) (*http.Response, []byte, error) {
	t.Helper()
	path, query, _ := strings.Cut(x.URI, "?")
	target := expect.Value(url.Parse(base))(t)
	target.Opaque, target.RawQuery = path, query
	var in io.Reader
	if x.Body != "" {
		in = strings.NewReader(x.Body)
	}
	r := expect.Value(http.NewRequestWithContext(t.Context(), x.Method, target.String(), in))(t)
	r.URL = target
	for name, value := range x.Headers {
		r.Header.Set(name, value)
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return resp, body, err
}

func readExchanges(t *testing.T) []exchange {
	t.Helper()
	all := nodetest.Recorded[exchange](t, "testdata/exchanges.jsonl")
	slices.SortStableFunc(all, func(a, b exchange) int { return cmp.Compare(a.Height, b.Height) })
	return all
}

func readShapes(t *testing.T) (shapes [][]string) {
	t.Helper()
	data := expect.Value(os.ReadFile("testdata/shapes.json"))(t)
	expect.NoError(t, json.Unmarshal(data, &shapes))
	return shapes
}

// shapeOf lists the paths of all members of a JSON document with their types.
func shapeOf(t *testing.T, body []byte) []string {
	t.Helper()
	var document any
	decode(t, string(body), &document)
	seen := map[string]bool{}
	collect(document, "", seen)
	return slices.Sorted(maps.Keys(seen))
}

func collect(v any, path string, seen map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		if len(v) == 0 {
			seen[path+" {}"] = true
		}
		for name, member := range v {
			collect(member, path+"."+name, seen)
		}
	case []any:
		if len(v) == 0 {
			seen[path+" []"] = true
		}
		for _, item := range v {
			collect(item, path+"[]", seen)
		}
	case nil:
		seen[path+" null"] = true
	case bool:
		seen[path+" bool"] = true
	case float64:
		seen[path+" number"] = true
	default:
		seen[path+" string"] = true
	}
}
