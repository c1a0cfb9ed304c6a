package proxy_test

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// standstill is the height the recorded chain stood still at.
const standstill = 228

// A recording is one exchange with a real node.
type recording struct {
	Name, Path, Query, Height string
	Status                    int
	Raw, Same                 string // Same names the recording that has the same text
}

func (r recording) target() string {
	if r.Query == "" {
		return r.Path
	}
	return r.Path + "?" + r.Query
}

var loadRecordings = sync.OnceValues(func() ([]recording, error) {
	f, err := os.Open("testdata/recordings.jsonl")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []recording
	texts := map[string]string{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r recording
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, err
		}
		if r.Same != "" {
			r.Raw = texts[r.Same]
		}
		texts[r.Name] = r.Raw
		all = append(all, r)
	}
	return all, lines.Err()
})

func recordings(tb testing.TB) []recording {
	tb.Helper()
	all := expect.Value(loadRecordings())(tb)
	return all
}

func recorded(tb testing.TB, name string) recording {
	tb.Helper()
	for _, r := range recordings(tb) {
		if r.Name == name {
			return r
		}
	}
	tb.Fatalf("no recording is called %s", name)
	return recording{}
}

// answer is what the node's client makes of the recording.
func (r recording) answer() *node.Answer {
	a := &node.Answer{Status: http.StatusOK, NodeStatus: r.Status, Type: "application/json", Body: []byte(r.Raw)}
	if r.Status == http.StatusOK {
		return a
	}
	var said struct{ Error string }
	_ = json.Unmarshal(a.Body, &said)
	a.Text, a.Reason = said.Error, reasonOf(said.Error)
	a.Status = a.Reason.Status()
	return a
}

// reasons are told by a part of the node's text, the first that is in it.
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

// fakeChain replays recordings, counts, and does otherwise when told to.
type fakeChain struct {
	mu          sync.Mutex
	tip         node.Tip
	behind      int64         // blocks that the answers are behind the tip
	wait        time.Duration // expected of a read
	asked       []node.Request
	raised      []int64
	grown       chan struct{} // closed when the tip moves
	panics      bool
	looked      func()  // at the tip; nil: nothing is done then
	noExecution bool    // no node tells of the execution client's blocks
	executed    []int64 // the heights of which it has told
	hashes      map[int64]string
	replaced    map[int64]string // hashes of blocks that the chain had before it was set back
	override    func(node.Request) (*node.Answer, error)
	byTarget    map[string]recording
}

func newFakeChain(tb testing.TB) *fakeChain {
	f := &fakeChain{grown: make(chan struct{}), byTarget: map[string]recording{}}
	f.tip = node.Tip{Height: standstill, Known: true, Seen: time.Now(), Interval: 2 * time.Second}
	for _, r := range recordings(tb) {
		if _, taken := f.byTarget[askedTarget(r.Path, r.Query)]; r.Height == "" && !taken {
			f.byTarget[askedTarget(r.Path, r.Query)] = r
		}
	}
	return f
}

// askedTarget brings the parameters of a request into one order.
func askedTarget(path, query string) string {
	q, _ := url.ParseQuery(query)
	return path + "?" + q.Encode()
}

func (f *fakeChain) does(answer func(node.Request) (*node.Answer, error)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.override = answer
}

func (f *fakeChain) says(status int, raw string) {
	f.does(func(node.Request) (*node.Answer, error) { return recording{Status: status, Raw: raw}.answer(), nil })
}

func (f *fakeChain) fails(err error) {
	f.does(func(node.Request) (*node.Answer, error) { return nil, err })
}

func (f *fakeChain) Fetch(_ context.Context, r node.Request) (*node.Answer, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r = withRawKey(r)
	f.asked = append(f.asked, r)
	a, err := f.lookUp(r)
	if err != nil {
		return nil, err
	}
	told := *a
	if told.Height = r.Height; r.Height == node.AtTip {
		told.Height = 0
		if f.tip.Known {
			told.Height = f.tip.Height - f.behind
		}
	}
	return &told, nil
}

// withRawKey puts the page key of a request into its query, as a node that reads keys raw is sent it.
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
	if found, ok := f.byTarget[askedTarget(r.Path, r.Query)]; ok {
		return found.answer(), nil
	}
	return &node.Answer{Status: 404, NodeStatus: 404, Type: "text/plain; charset=utf-8", Body: []byte("404 page not found\n"), Text: "404 page not found", Reason: node.NotFound, NoPath: r.Cost == node.Unknown}, nil
}

func (f *fakeChain) Tip() node.Tip {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.panics {
		panic("no tip")
	}
	if f.looked != nil {
		f.looked()
	}
	return f.tip
}

func (f *fakeChain) ChainID() string { return "recorded-1" }

func (f *fakeChain) grow(blocks int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.tip.Height += blocks
	f.tip.Seen = time.Now()
	close(f.grown)
	f.grown = make(chan struct{})
}

// set changes what the chain does, also while it is asked.
func (f *fakeChain) set(change func(*fakeChain)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

// deafen takes the height source away.
func (f *fakeChain) deafen() { f.set(func(f *fakeChain) { f.tip = node.Tip{} }) }

func (f *fakeChain) Moved() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.grown
}

func (f *fakeChain) WaitHeight(ctx context.Context, height int64) error {
	for {
		f.mu.Lock()
		reached, grown := f.tip.Height >= height, f.grown
		f.mu.Unlock()
		if reached {
			return nil
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// executionAhead is how far the execution client's blocks are ahead of the fake's.
const executionAhead = 1000

// Executed knows the heights that it was asked about.
func (f *fakeChain) Executed(_ context.Context, height, number int64) (since, newest int64, err error) {
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

func (f *fakeChain) Expected(node.Request) time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.wait
}

func (f *fakeChain) HashOf(height int64) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.hashes[height]
}

func (f *fakeChain) Replaced(height int64, prefix string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if known := f.hashes[height]; known != "" {
		return !strings.HasPrefix(known, prefix)
	}
	return strings.HasPrefix(f.replaced[height], prefix)
}

func (f *fakeChain) Raise(height int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.raised = append(f.raised, height)
}

func (f *fakeChain) calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.asked)
}

func (f *fakeChain) last() node.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.asked[len(f.asked)-1]
}
