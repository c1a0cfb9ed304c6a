package web

import (
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"

	"github.com/tipcache/tipcache/proxy/session"
)

// A Session is what a request's client has seen by its own account. Unlike what was seen
// on its connection, which an ingress may share among clients, it binds this request alone.
type Session struct {
	Token session.Token // as it came, in its header or in a cookie; zero for none
	Least int64         // the block that the answer is not to be older than; 0 for none
	Reset bool          // the token is of a chain that was set back
}

// A sight is a block that a client was answered at on its connection.
type sight struct {
	epoch, height int64
	awaited       bool // in vain: later requests are not held up once more
}

// beyond says whether s is of a later block than other, or says more of the same.
func (s sight) beyond(other sight) bool {
	switch {
	case s.epoch != other.epoch:
		return s.epoch > other.epoch
	case s.height != other.height:
		return s.height > other.height
	default:
		return s.awaited && !other.awaited
	}
}

// sights keeps the highest block that a client was answered at on its connection, so
// that later answers there do not go back behind it. It never falls.
type sights struct{ highest atomic.Pointer[sight] }

func (s *sights) look() sight {
	if highest := s.highest.Load(); highest != nil {
		return *highest
	}
	return sight{}
}

func (s *sights) raise(to sight) {
	for {
		before := s.highest.Load()
		if before != nil && !to.beyond(*before) || to == (sight{}) {
			return
		}
		raised := to
		if s.highest.CompareAndSwap(before, &raised) {
			return
		}
	}
}

// Resume notes the session of a request by the values of its header. It is not ok where they are malformed.
func (rec *Record) Resume(values []string) (ok bool) {
	if values = Given(values); len(values) == 0 {
		return true
	}
	rec.Session.Token, ok = session.Parse(values[0])
	return ok && len(values) == 1
}

// Arrive gives the record its connection, nil for none of ours. What was seen there
// is what was answered by now: on HTTP/2 other requests may be under way.
func (rec *Record) Arrive(client *Conn) {
	if rec.client = client; client != nil {
		rec.before = client.seen.look()
	}
}

// Leave notes on the connection, once the request is answered, at which block it was.
func (rec *Record) Leave() {
	if rec.client != nil {
		rec.client.seen.raise(rec.shown)
	}
}

// Seen is the highest block of an epoch that the request's client had been answered at
// on its connection when the request came; 0 for none. awaited says that it was waited
// for in vain.
func (rec *Record) Seen(epoch int64) (height int64, awaited bool) {
	if rec.before.epoch != epoch {
		return 0, false
	}
	return rec.before.height, rec.before.awaited
}

// Show notes the block that the client is about to be answered at, of several the highest.
func (rec *Record) Show(epoch, height int64) {
	if s := (sight{epoch: epoch, height: height}); s.beyond(rec.shown) {
		rec.shown = s
	}
}

// Awaited notes that the block that the client has seen was waited for in vain.
func (rec *Record) Awaited() {
	rec.before.awaited = true
	if rec.client != nil {
		rec.client.seen.raise(rec.before)
	}
}

// sessionCookie carries the session of a browser.
const sessionCookie = "tipcache-session"

// CookieSession is the session that a request's cookie has, zero for none and for one that
// is malformed; on says whether cookies carry sessions here.
func (s *Stack) CookieSession(r *http.Request) (t session.Token, on bool) {
	if !s.o.SessionCookie {
		return t, false
	}
	if sent, err := r.Cookie(sessionCookie); err == nil {
		t, _ = session.Parse(sent.Value)
	}
	return t, true
}

// SetCookieSession has the browser keep a session. It sends it back from pages of the same
// site alone.
func (s *Stack) SetCookieSession(w http.ResponseWriter, r *http.Request, t session.Token) {
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: t.String(), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.isSecure(r),
	})
}

// isSecure tells whether the client came by TLS: to us, or to a proxy that is trusted.
func (s *Stack) isSecure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	by, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && strings.EqualFold(strings.TrimSpace(by), "https") && s.Trusts(peer.Addr().Unmap())
}
