package blocks_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
)

// A lane keeps what it is given to answer again.
type lane struct {
	web.Lane
	remembered []record.Replayer
}

func (l *lane) Wrap(*conn.Conn, net.Conn) conn.LaneConn           { return nil }
func (l *lane) PlaceOf(*http.Request, conn.LaneConn) record.Place { return l }
func (l *lane) Serve(*conn.Conn, conn.LaneConn, http.ResponseWriter, *http.Request) bool {
	return false
}
func (l *lane) Forget()        { l.remembered = nil }
func (l *lane) Use(*web.Stack) {}
func (l *lane) Remember(_ *http.Request, rec *record.Record) {
	l.remembered = append(l.remembered, rec.Replayer)
}

// through answers queries as an interface over HTTP does, on a connection with a lane.
func (d *frontend) through(t *testing.T, l *lane, q func() *blocks.Query) *httptest.ResponseRecorder {
	t.Helper()
	route := web.Route{Name: "pool", Serve: func(c *gin.Context, rec *record.Record) error {
		query := q()
		a, err := d.Answer(c.Request.Context(), c.Request, rec, query)
		if err == nil {
			d.Respond(c.Writer, c.Request, rec, query, &a)
		}
		return err
	}}
	engine := d.Stack.NewEngine(func(*gin.Context) web.Route { return route }, nil)
	engine.NoRoute(web.Handle)
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	ours, theirs := net.Pipe()
	defer func() { _, _ = ours.Close(), theirs.Close() }()
	w := httptest.NewRecorder()
	engine.ServeHTTP(w, r.WithContext(conn.Context(r.Context(), conn.New(ours, l, nil, nil))))
	return w
}

func (d *frontend) query(hs blocks.Heights, walk blocks.Snapshot) func() *blocks.Query {
	return func() *blocks.Query {
		return &blocks.Query{Key: "test/pool", Kind: d.kind, Origin: read{d.nodes}, Heights: hs, Walk: walk}
	}
}

// What the lane answers again is read at the newest block or at a height that the request names, so that a page
// of a walk, which is read at the block of the page before, must not get there.
func TestOnlyAnswersThatDependOnTheirRequestAloneAreLeftToTheLane(t *testing.T) {
	for name, tt := range map[string]struct {
		hs   blocks.Heights
		walk blocks.Snapshot
		want bool
	}{
		"at the newest block":         {want: true},
		"at a height":                 {hs: blocks.Heights{Pinned: 90}, want: true},
		"a block that is to be seen":  {hs: blocks.Heights{Min: 100}, want: true},
		"a later page of a walk":      {walk: blocks.Snapshot{Height: 97, Epoch: 1}},
		"a walk of an earlier epoch":  {walk: blocks.Snapshot{Height: 97}},
		"a walk at the newest block":  {walk: blocks.Snapshot{Height: 100, Epoch: 1}},
		"a walk that names its block": {hs: blocks.Heights{Pinned: 97}, walk: blocks.Snapshot{Height: 97, Epoch: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &lane{}
			behind(t, func(t *testing.T, d *frontend) {
				for _, first := range []bool{true, false} {
					if w := d.through(t, l, d.query(tt.hs, tt.walk)); w.Code != http.StatusOK {
						t.Fatalf("status = %d: %s", w.Code, w.Body)
					}
					if first && len(l.remembered) > 0 {
						t.Error("an answer that the node had to be asked for is left to the lane")
					}
				}
				if got := len(l.remembered) == 1; got != tt.want {
					t.Errorf("left to the lane: %t, want %t", got, tt.want)
				}
			}, func(o *web.Options) { o.Lane = l })
		})
	}
}

func TestReplayAnswersAsTheHandlerWouldOrNotAtAll(t *testing.T) {
	for name, tt := range map[string]struct {
		hs      blocks.Heights
		session session.Token
		between func(d *frontend)
		of      func(*cache.Entry) bool
		want    string // how it is answered; "" for not at all
	}{
		"nothing has happened":                     {want: "hit"},
		"a height, and a block has come":           {hs: blocks.Heights{Pinned: 90}, between: func(d *frontend) { d.nodes.grow(1) }, want: "hit"},
		"a block has come":                         {between: func(d *frontend) { d.nodes.grow(1) }},
		"the client has seen this block":           {session: session.Token{Height: 100}, want: "hit"},
		"the client has seen the next block":       {session: session.Token{Height: 101}},
		"the client names a block that cannot be":  {session: session.Token{Height: 1000}, want: "stale"},
		"the client has seen a block that is gone": {session: session.Token{Height: 101, Hash: "A1A1A1A1"}, between: func(d *frontend) { d.nodes.dead = "A1A1A1A1" }, want: "hit"},
		"the interface has no use for the entry":   {of: func(*cache.Entry) bool { return false }},
		"the height is above the tip, which fell":  {hs: blocks.Heights{Pinned: 100}, between: func(d *frontend) { d.nodes.grow(-1) }},
		"the newest block is contradicted":         {between: func(d *frontend) { d.nodes.tip.Unconfirmed = true }, want: "hit"},
		"the newest block is not known any longer": {between: func(d *frontend) { d.nodes.tip.Known = false }, want: "hit"},
	} {
		t.Run(name, func(t *testing.T) {
			behind(t, func(t *testing.T, d *frontend) {
				d.nodes.tip.Limit = 110
				before := d.ask(t, tt.hs, blocks.Snapshot{})
				if tt.between != nil {
					tt.between(d)
				}
				if tt.of == nil {
					tt.of = record.Repeats
				}
				rec, told := &record.Record{}, respond.Response{}
				rec.Start, rec.Session.Token = time.Now(), tt.session
				got := ""
				if d.Replayer(d.query(tt.hs, blocks.Snapshot{})(), tt.of).Replay(rec, &told) {
					got = told.Outcome.String()
				}
				if got != tt.want {
					t.Fatalf("replayed as %q, want %q", got, tt.want)
				}
				if got != "" && told.Unconfirmed != d.nodes.tip.Unconfirmed {
					t.Errorf("replayed as unconfirmed: %t, want %t", told.Unconfirmed, d.nodes.tip.Unconfirmed)
				}
				if got != "" && told.Entry.Height != before.Height {
					t.Errorf("replayed at block %d, want %d", told.Entry.Height, before.Height)
				}
			})
		})
	}
}
