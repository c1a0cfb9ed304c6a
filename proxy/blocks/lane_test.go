package blocks_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/proxy/web"
)

// lane records the replayers that it is given.
type lane struct {
	web.Lane
	remembered []record.Replayer
}

func (l *lane) Wrap(*conn.Conn, net.Conn) conn.LaneConn           { return nil }
func (l *lane) SlotFor(*conn.Conn, *http.Request) record.LaneSlot { return l }
func (l *lane) Serve(*conn.Conn, http.ResponseWriter, *http.Request) (bool, record.Sampling) {
	return false, record.Undecided
}
func (l *lane) Forget()        { l.remembered = nil }
func (l *lane) Use(*web.Stack) {}
func (l *lane) Put(_ *http.Request, _ record.Head, rec *record.Record) {
	l.remembered = append(l.remembered, rec.Replayer)
}

// serve serves a query over HTTP on a connection with a lane.
func (d *frontend) serve(t *testing.T, l *lane, q func() *blocks.Read) *httptest.ResponseRecorder {
	t.Helper()
	route := web.Route{Name: "pool", Serve: func(r *web.Request) error { return d.Serve(r, q()) }}
	handler := d.Stack.NewEngine(nil, func(*web.Request) web.Route { return route }).Handler()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	ours, theirs := net.Pipe()
	defer func() { _, _ = ours.Close(), theirs.Close() }()
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, r.WithContext(conn.Context(r.Context(), conn.New(ours, l, nil, nil))))
	return w
}

func (d *frontend) query(hs web.Heights, walk blocks.Snapshot) func() *blocks.Read {
	return func() *blocks.Read {
		return &blocks.Read{Key: "test/pool", Kind: d.kind, Source: read{d.nodes}, Heights: hs, Walk: walk}
	}
}

// The lane replays queries at the newest block or at an explicit height. It must not replay a page of a walk,
// which is read at the block of the previous page.
func TestLaneRemembersNoPagesOfWalks(t *testing.T) {
	for name, tt := range map[string]struct {
		hs   web.Heights
		walk blocks.Snapshot
		want bool
	}{
		"at the newest block":         {want: true},
		"at a height":                 {hs: web.Heights{Pinned: 90}, want: true},
		"a minimum block":             {hs: web.Heights{Min: 100}, want: true},
		"a later page of a walk":      {walk: blocks.Snapshot{Height: 97, Epoch: 1}},
		"a walk of an earlier epoch":  {walk: blocks.Snapshot{Height: 97}},
		"a walk at the newest block":  {walk: blocks.Snapshot{Height: 100, Epoch: 1}},
		"a walk that names its block": {hs: web.Heights{Pinned: 97}, walk: blocks.Snapshot{Height: 97, Epoch: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			l := &lane{}
			withFrontend(t, func(t *testing.T, d *frontend) {
				for _, first := range []bool{true, false} {
					if w := d.serve(t, l, d.query(tt.hs, tt.walk)); w.Code != http.StatusOK {
						t.Fatalf("status = %d %s, want 200", w.Code, w.Body)
					}
					if first && len(l.remembered) > 0 {
						t.Error("lane recorded a miss")
					}
				}
				if got := len(l.remembered) == 1; got != tt.want {
					t.Errorf("remembered by the lane = %t, want %t", got, tt.want)
				}
			}, func(o *web.Options) { o.Lane = l })
		})
	}
}

func TestReplayEqualsHandlerOrDeclines(t *testing.T) {
	for name, tt := range map[string]struct {
		hs      web.Heights
		session session.Token
		between func(d *frontend)
		of      func(*cache.Entry) bool
		want    string // outcome; "" if it is not replayed
	}{
		"nothing has happened":                      {want: "hit"},
		"a height, after a new block":               {hs: web.Heights{Pinned: 90}, between: func(d *frontend) { d.nodes.grow(1) }, want: "hit"},
		"a new block":                               {between: func(d *frontend) { d.nodes.grow(1) }},
		"the client has seen this block":            {session: session.Token{Height: 100}, want: "hit"},
		"the client has seen the next block":        {session: session.Token{Height: 101}},
		"the client names a block beyond the limit": {session: session.Token{Height: 1000}, want: "stale"},
		"the client has seen a rolled back block":   {session: session.Token{Height: 101, Hash: "A1A1A1A1"}, between: func(d *frontend) { d.nodes.rolledBack = "A1A1A1A1" }, want: "hit"},
		"the interface rejects the entry":           {of: func(*cache.Entry) bool { return false }},
		"the height is above the tip, which fell":   {hs: web.Heights{Pinned: 100}, between: func(d *frontend) { d.nodes.grow(-1) }},
		"the tip is unconfirmed":                    {between: func(d *frontend) { d.nodes.tip.Unconfirmed = true }, want: "hit"},
		"the tip is unknown":                        {between: func(d *frontend) { d.nodes.tip.Known = false }, want: "hit"},
	} {
		t.Run(name, func(t *testing.T) {
			withFrontend(t, func(t *testing.T, d *frontend) {
				d.nodes.tip.Limit = 110
				before := d.get(t, tt.hs, blocks.Snapshot{})
				if tt.between != nil {
					tt.between(d)
				}
				if tt.of == nil {
					tt.of = record.LaneMayServe
				}
				rec, res := &record.Record{}, respond.Response{}
				rec.Start, rec.Session.Token = time.Now(), tt.session
				got := ""
				if d.Replayer(d.query(tt.hs, blocks.Snapshot{})(), tt.of).Replay(rec, &res) {
					got = string(res.Outcome)
				}
				if got != tt.want {
					t.Fatalf("outcome = %q, want %q", got, tt.want)
				}
				if got != "" && res.Unconfirmed != d.nodes.tip.Unconfirmed {
					t.Errorf("unconfirmed = %t, want %t", res.Unconfirmed, d.nodes.tip.Unconfirmed)
				}
				if got != "" && res.Entry.Height != before.Height {
					t.Errorf("height = %d, want %d", res.Entry.Height, before.Height)
				}
			})
		})
	}
}
