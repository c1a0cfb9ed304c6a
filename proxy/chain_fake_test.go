package proxy_test

import (
	"context"
	_ "embed"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/upstream/devnet/state"
	"github.com/tipcache/tipcache/upstream/node"
)

// standstill is the height at which the chain was recorded.
const standstill = 228

// A recording is one exchange with a real node.
type recording struct {
	Name, Path, Query, Height string
	Status                    int
	Raw, Same                 string // Same names a recording with the same body, which is not repeated in the file
}

func (r recording) target() string {
	if r.Query == "" {
		return r.Path
	}
	return r.Path + "?" + r.Query
}

//go:embed testdata/recordings.jsonl
var recordingLines []byte

var recordings = sync.OnceValue(func() []recording {
	all, texts := state.Lines[recording](recordingLines), map[string]string{}
	for i := range all {
		if all[i].Same != "" {
			all[i].Raw = texts[all[i].Same]
		}
		texts[all[i].Name] = all[i].Raw
	}
	return all
})

func findRecording(tb testing.TB, name string) recording {
	tb.Helper()
	for _, r := range recordings() {
		if r.Name == name {
			return r
		}
	}
	tb.Fatalf("no recording has the name %s", name)
	return recording{}
}

// answer returns the recording as the node's client returns it.
func (r recording) answer() *node.Answer {
	a := &node.Answer{Status: http.StatusOK, NodeStatus: r.Status, Type: "application/json", Body: []byte(r.Raw)}
	if r.Status == http.StatusOK {
		return a
	}
	var body struct{ Error string }
	_ = json.Unmarshal(a.Body, &body)
	a.Text, a.Reason = body.Error, reasonOf(body.Error)
	a.Status = a.Reason.Status()
	return a
}

// reasons maps parts of a node's error text to its reason. The first part found in the text decides.
var reasons = []struct {
	part   string
	reason node.Reason
}{
	{"height in the future", node.FutureHeight}, {"failed to load state", node.Pruned},
	{"not found", node.NotFound}, {"does not exist", node.NotFound}, {"no delegation", node.NotFound},
	{"InvalidArgument", node.BadInput}, {"parsing", node.BadInput}, {"hex", node.BadInput}, {"either offset or key", node.BadInput},
}

func reasonOf(text string) node.Reason {
	for _, r := range reasons {
		if strings.Contains(text, r.part) {
			return r.reason
		}
	}
	return node.Other
}

// fakeChain answers requests with recordings, or as override says, and records the requests.
type fakeChain struct {
	mu          sync.Mutex
	tip         node.Tip
	behind      int64 // how many blocks the answers are behind the tip
	requests    []node.Request
	moved       chan struct{} // closed when the tip moves
	onTip       func()        // called by Tip; nil does nothing
	noExecution bool          // no node reports blocks of an execution client
	executed    []int64       // heights for which Executed was called
	hashes      map[int64]string
	override    func(node.Request) (*node.Answer, error)
	byTarget    map[string]recording
}

func newFakeChain(tb testing.TB) *fakeChain {
	f := &fakeChain{moved: make(chan struct{}), byTarget: map[string]recording{}}
	f.tip = node.Tip{Height: standstill, Known: true, Since: time.Now(), Interval: 2 * time.Second}
	for _, r := range recordings() {
		if _, taken := f.byTarget[canonicalTarget(r.Path, r.Query)]; r.Height == "" && !taken {
			f.byTarget[canonicalTarget(r.Path, r.Query)] = r
		}
	}
	return f
}

// canonicalTarget returns a request target with its parameters in one order.
func canonicalTarget(path, query string) string {
	q, _ := url.ParseQuery(query)
	return path + "?" + q.Encode()
}

func (f *fakeChain) answerWith(answer func(node.Request) (*node.Answer, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.override = answer
}

func (f *fakeChain) reply(status int, raw string) {
	f.answerWith(func(node.Request) (*node.Answer, error) { return recording{Status: status, Raw: raw}.answer(), nil })
}

func (f *fakeChain) failWith(err error) {
	f.answerWith(func(node.Request) (*node.Answer, error) { return nil, err })
}

func (f *fakeChain) Fetch(_ context.Context, r node.Request) (*node.Answer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r = withRawKey(r)
	f.requests = append(f.requests, r)
	found, err := f.lookUp(r)
	if err != nil {
		return nil, err
	}
	a := *found
	if a.Height = r.Height; r.Height == node.AtTip {
		a.Height = 0
		if f.tip.Known {
			a.Height = f.tip.Height - f.behind
		}
	}
	return &a, nil
}

// withRawKey moves the page key of a request into its query, where nodes that read raw keys expect it.
func withRawKey(r node.Request) node.Request {
	if r.PageKey == "" {
		return r
	}
	pairs := strings.FieldsFunc(r.Query, func(c rune) bool { return c == '&' })
	at := slices.IndexFunc(pairs, func(pair string) bool { return strings.HasPrefix(pair, "pagination.") })
	if at < 0 {
		at = len(pairs)
	}
	key := strings.ReplaceAll(url.QueryEscape(r.PageKey), "+", "%20")
	r.Query, r.PageKey = strings.Join(slices.Insert(pairs, at, dialect.PageKey+"="+key), "&"), ""
	return r
}

func (f *fakeChain) lookUp(r node.Request) (*node.Answer, error) {
	if f.override != nil {
		return f.override(r)
	}
	if found, ok := f.byTarget[canonicalTarget(r.Path, r.Query)]; ok {
		return found.answer(), nil
	}
	return &node.Answer{Status: 404, NodeStatus: 404, Type: "text/plain; charset=utf-8", Body: []byte("404 page not found\n"), Text: "404 page not found", Reason: node.NotFound, NoPath: r.Cost == node.Unknown}, nil
}

func (f *fakeChain) Tip() node.Tip {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.onTip != nil {
		f.onTip()
	}
	return f.tip
}

func (f *fakeChain) ChainID() string { return "recorded-1" }

func (f *fakeChain) grow(blocks int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tip.Height += blocks
	f.tip.Since = time.Now()
	close(f.moved)
	f.moved = make(chan struct{})
}

// change changes the chain under its lock.
func (f *fakeChain) change(change func(*fakeChain)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// loseTip makes the tip unknown.
func (f *fakeChain) loseTip() { f.change(func(f *fakeChain) { f.tip = node.Tip{} }) }

func (f *fakeChain) Moved() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.moved
}

func (f *fakeChain) WaitHeight(ctx context.Context, height int64) error {
	for {
		f.mu.Lock()
		reached, moved := f.tip.Height >= height, f.moved
		f.mu.Unlock()
		if reached {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// executionAhead is how many blocks the execution client is ahead of the chain.
const executionAhead = 1000

// Executed knows the execution blocks of the heights for which it was called.
func (f *fakeChain) Executed(_ context.Context, _ string, height, number int64) (since, newest int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, known := range f.executed {
		if known <= height && known+executionAhead >= number {
			return known, number, nil
		}
	}
	if f.noExecution {
		return 0, 0, node.ErrNoExecution
	}
	f.executed = append(f.executed, height)
	slices.Sort(f.executed)
	if newest = height + executionAhead; newest >= number {
		since = height
	}
	return since, newest, nil
}

func (f *fakeChain) Expected(node.Request) time.Duration { return 0 }

func (f *fakeChain) HashOf(height int64) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hashes[height]
}

func (f *fakeChain) Replaced(height int64, prefix string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.hashes[height]
	return known != "" && !strings.HasPrefix(known, prefix)
}

func (f *fakeChain) Raise(int64) {}

func (f *fakeChain) calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests)
}

func (f *fakeChain) lastRequest() node.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.requests[len(f.requests)-1]
}
