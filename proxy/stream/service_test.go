package stream_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/failure"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/stream"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// service streams the answers of a chain in a synctest bubble. Every path belongs to the chain, and /live streams
// several.
type service struct {
	t       *testing.T
	chain   *chain
	budget  *budget
	stack   *web.Stack
	streams *stream.Handler
	handler http.Handler
}

// budget is an account, of 1 GiB by default, part of which a test may reserve.
type budget struct {
	*account.Account
	away int64
}

func (b *budget) reserved() int64 { return b.Used() - b.away }

// leave reserves all but n bytes.
func (b *budget) leave(n int64) {
	more := b.Limit()/8*7 - b.Used() - n // the rest is for upstreams
	b.away += more
	b.Reserve(account.Unread, more)
}

// inBubble runs a test with a service in a synctest bubble.
func inBubble(t *testing.T, o stream.Options, test func(s *service)) {
	t.Helper()
	inBubbleWith(t, o, web.Options{}, test)
}

func inBubbleWith(t *testing.T, o stream.Options, w web.Options, test func(s *service)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(newService(t, o, w))
	})
}

func newService(t *testing.T, o stream.Options, w web.Options) *service {
	t.Helper()
	c, memory := newChain(), &budget{Account: cmp.Or(o.Budget, account.New(1<<30, nil))}
	o.Heights, o.Budget = c, memory.Account
	w.Registerer = prometheus.NewPedanticRegistry()
	bodies := expect.Value(cache.New(cache.Options{Account: memory.Account}))(t)
	stack := web.New(w, bodies)
	streams := stream.New(o, stack)
	refuse := func(_ *web.Request, h http.Header, f *failure.Failure) (status int, typ string, body []byte) {
		f.SetAdvice(h)
		return f.Status, "text/plain; charset=utf-8", []byte(f.Public)
	}
	rt := web.Route{
		Keyed: w.Keys != nil, Access: "/a", Render: refuse, Serve: c.reply(stack),
		Feed: func(r *web.Request) (web.Feed, error) { return c.feed(r.URL.Path), nil },
	}
	engine := stack.NewEngine(nil, func(r *web.Request) web.Route {
		if r.RemoveParameters(web.FilterParameter); r.Options[web.SinceParameter] != nil {
			return streams.Poll(rt)
		}
		stream.OptionsAsHeaders(r)
		if stream.TakeWait(r) {
			return streams.Wait(rt)
		}
		return streams.Route(rt, c.sources)
	})
	return &service{t, c, memory, stack, streams, engine.Handler()}
}

// chain has an answer for each path. The test creates its blocks.
type chain struct {
	mu       sync.Mutex
	tip      node.Tip
	grown    chan struct{}
	answers  map[string]string
	read     func(path string, height int64) (string, error) // used instead of answers, without the lock
	readers  []string                                        // clients on whose behalf it was read
	min      int64                                           // the block that requests require; 0 for none
	pinned   int64                                           // the block that all answers are pinned to; 0 for none
	executed func(ctx context.Context)                       // runs before Executed returns
	indexed  bool                                            // the answers are from the nodes' index
	fresh    time.Duration                                   // how long answers are fresh while no tip is known
}

func newChain() *chain {
	return &chain{
		tip: node.Tip{Height: 100, Known: true, Since: time.Now(), Interval: 2 * time.Second}, grown: make(chan struct{}),
		answers: map[string]string{},
	}
}

func (c *chain) Tip() node.Tip {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tip
}

// Executed says that block h includes block h+1000 of the execution chain.
func (c *chain) Executed(ctx context.Context, _ string, height, _ int64) (since, newest int64, err error) {
	if c.executed != nil {
		c.executed(ctx)
	}
	return 0, height + 1000, ctx.Err()
}

func (c *chain) ChainID() string { return "test-1" }

// HashOf returns a hash that depends on the epoch.
func (c *chain) HashOf(height int64) string {
	return fmt.Sprintf("%08d%08d", c.Tip().Epoch, height)
}

func (c *chain) Replaced(height int64, prefix string) bool {
	return !strings.HasPrefix(c.HashOf(height), prefix)
}

// reply answers a request once.
func (c *chain) reply(stack *web.Stack) web.Handler {
	return func(r *web.Request) error {
		res, _, err := c.feed(r.URL.Path).Reader.Read(r.Context(), "", false)
		if err != nil {
			return err
		}
		if r.Item != nil {
			res.Entry = r.Item
		}
		a := respond.Response{Result: res, Now: time.Now()}
		if r.Amend != nil {
			r.Amend(&a)
		}
		stack.Responder.Respond(r.Writer, r.Request, &a)
		return nil
	}
}

func (c *chain) Moved() <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.grown
}

// sources returns the feeds that a request names.
func (c *chain) sources(r *web.Request) (all []stream.Source, err error) {
	if r.URL.Path != stream.LivePath {
		return []stream.Source{{Feed: c.feed(r.URL.Path)}}, nil
	}
	for _, path := range r.URL.Query()[web.PathParameter] {
		all = append(all, stream.Source{Path: path, Feed: c.feed(path)})
	}
	return all, nil
}

// unreadable is the answer of a path that cannot be read.
const unreadable = "unreadable"

// missing is the answer of a path whose item no node has.
const missing = "missing"

var errUnreadable = &failure.Failure{Status: http.StatusBadGateway, Public: "the chain node cannot be reached"}

func (c *chain) feed(path string) web.Feed {
	return web.Feed{Key: path, Min: c.min, Indexed: c.indexed, Fresh: c.fresh, ComparedBody: func(body []byte) []byte { return body }, Reader: feedReader(func(client string) (cache.Result, int64, error) {
		if c.read != nil {
			height := c.Tip().Height
			text, err := c.read(path, height)
			return cache.Result{Entry: &cache.Entry{Content: cache.NewContent(200, respond.JSON, "", []byte(text), 0), Height: height, ReadAt: time.Now()}}, c.pinned, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.readers = append(c.readers, client)
		if c.answers[path] == unreadable {
			return cache.Result{}, 0, errUnreadable
		}
		status := http.StatusOK
		if c.answers[path] == missing {
			status = http.StatusNotFound
		}
		return cache.Result{Entry: &cache.Entry{Content: cache.NewContent(status, respond.JSON, "", []byte(c.answers[path]), 0), Height: c.tip.Height, ReadAt: time.Now()}}, c.pinned, nil
	})}
}

// A feedReader is a [web.FeedReader] that always reads at the newest block.
type feedReader func(client string) (cache.Result, int64, error)

func (read feedReader) Read(_ context.Context, client string, _ bool) (cache.Result, int64, error) {
	return read(client)
}

// setAnswers adds a block at which the given paths have new answers.
func (s *service) setAnswers(answers map[string]string) {
	s.chain.mu.Lock()
	defer s.chain.mu.Unlock()
	for path, answer := range answers {
		s.chain.answers[path] = answer
	}
	s.chain.moveTo(s.chain.tip.Height+1, s.chain.tip.Epoch)
}

// set changes an answer without a block.
func (c *chain) set(path, answer string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers[path] = answer
}

// moveTo moves the tip. The caller must hold mu.
func (c *chain) moveTo(height, epoch int64) {
	c.tip.Height, c.tip.Epoch, c.tip.Since = height, epoch, time.Now()
	close(c.grown)
	c.grown = make(chan struct{})
}

func (s *service) rollBack(height int64) {
	s.chain.mu.Lock()
	defer s.chain.mu.Unlock()
	s.chain.moveTo(height, s.chain.tip.Epoch+1)
}

// loseTip makes the tip unknown, in a new epoch if the chain is rolled back.
func (s *service) loseTip(epoch int64) {
	s.chain.mu.Lock()
	defer s.chain.mu.Unlock()
	s.chain.tip.Known = false
	s.chain.moveTo(0, epoch)
}

// findTip makes the tip known again.
func (s *service) findTip(height int64) {
	s.chain.mu.Lock()
	defer s.chain.mu.Unlock()
	s.chain.tip.Known = true
	s.chain.moveTo(height, s.chain.tip.Epoch)
}

// readers returns the clients on whose behalf the chain was read since the last call.
func (s *service) readers() []string {
	synctest.Wait()
	s.chain.mu.Lock()
	defer s.chain.mu.Unlock()
	all := s.chain.readers
	s.chain.readers = nil
	return all
}

// follower is a client of a stream.
type follower struct {
	header http.Header
	cancel context.CancelFunc
	ended  chan struct{}

	reads chan struct{} // closed while the client reads what is written

	mu       sync.Mutex
	text     []byte
	deadline time.Time // for writing
}

// follow opens a stream that is closed when the test ends.
func (s *service) follow(target string, headers ...string) *follower {
	s.t.Helper()
	return s.followFrom("192.0.2.1", target, headers...)
}

// followFrom opens a stream from an address.
func (s *service) followFrom(address, target string, headers ...string) *follower {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	r := httptest.NewRequestWithContext(ctx, http.MethodGet, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	r.RemoteAddr, r.ProtoMajor, r.ProtoMinor = address+":1000", 2, 0
	f := &follower{header: http.Header{}, cancel: cancel, ended: make(chan struct{}), reads: make(chan struct{})}
	close(f.reads)
	go func() {
		defer close(f.ended)
		s.handler.ServeHTTP(f, r)
	}()
	s.t.Cleanup(f.leave)
	return f
}

func (f *follower) leave() {
	f.cancel()
	<-f.ended
}

func (f *follower) Header() http.Header { return f.header }
func (f *follower) WriteHeader(int)     {}
func (f *follower) Flush()              {}

// SetWriteDeadline is called by http.ResponseController.
func (f *follower) SetWriteDeadline(deadline time.Time) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.deadline = deadline
	return nil
}

func (f *follower) writeDeadline() time.Time {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.deadline
}

func (f *follower) Write(text []byte) (int, error) {
	f.mu.Lock()
	reads := f.reads
	f.mu.Unlock()
	<-reads
	f.mu.Lock()
	defer f.mu.Unlock()
	f.text = append(f.text, text...)
	return len(text), nil
}

// events returns the events written since the last call.
func (f *follower) events() (all []string) {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	for event := range strings.SplitSeq(string(f.text), "\n\n") {
		if event != "" && event != ":" {
			all = append(all, event)
		}
	}
	f.text = nil
	return all
}

// data returns the sorted data of the events written since the last call and the client's last event id.
func (f *follower) data() (data []string, id string) {
	for _, event := range f.events() {
		for line := range strings.SplitSeq(event, "\n") {
			if text, ok := strings.CutPrefix(line, "data: "); ok {
				data = append(data, text)
			} else if text, ok := strings.CutPrefix(line, "id: "); ok {
				id = text
			}
		}
	}
	slices.Sort(data)
	return data, id
}

// live returns the target that streams paths.
func live(paths ...string) string {
	return stream.LivePath + "?" + url.Values{web.PathParameter: paths}.Encode()
}

// Over HTTP/2 it would stop the bodies of other requests on the connection.
func TestBodyOfARequestThatWaitsIsRead(t *testing.T) {
	inBubble(t, stream.Options{}, func(s *service) {
		s.setAnswers(map[string]string{"/a": "1"})
		first := s.poll("/a?since=0")
		<-first.ended
		next, _, _ := strings.Cut(strings.TrimPrefix(first.to.Header().Get("Link"), "<"), ">")
		for target, accept := range map[string]string{"/a": stream.EventType, "/a" + next: ""} {
			ctx, leave := context.WithCancel(s.t.Context())
			body := strings.NewReader(strings.Repeat("x", 64<<10))
			r := httptest.NewRequestWithContext(ctx, http.MethodGet, target, body)
			r.Header.Set("Accept", accept)
			ended := make(chan struct{})
			go func() { defer close(ended); s.handler.ServeHTTP(httptest.NewRecorder(), r) }()
			synctest.Wait()
			expect.Equal(s.t, body.Len(), 0, "unread bytes of the body of %s", target)
			leave()
			<-ended
		}
	})
}
