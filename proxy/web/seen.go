package web

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

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

// lastRaised is what most connections are raised to next: they share it, so that a block makes no garbage
// for each of them, and requests on many connections find it in the processor's caches.
var lastRaised atomic.Pointer[sight]

func (s *sights) raise(to sight) {
	for {
		before := s.highest.Load()
		if before != nil && !to.beyond(*before) || to == (sight{}) {
			return
		}
		raised := lastRaised.Load()
		if raised == nil || *raised != to {
			other := to
			raised = &other
			lastRaised.Store(raised)
		}
		if s.highest.CompareAndSwap(before, raised) {
			return
		}
	}
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

// A Session is what a request's client has seen by its own account. Unlike what was seen
// on its connection, which an ingress may share among clients, it binds this request alone.
type Session struct {
	Token Token // as it came, in its header or in a cookie; zero for none
	Least int64 // the block that the answer is not to be older than; 0 for none
	Reset bool  // the token is of a chain that was set back
}

// Resume notes the session of a request by the values of its header. It is not ok where they are malformed.
func (rec *Record) Resume(values []string) (ok bool) {
	if values = Given(values); len(values) == 0 {
		return true
	}
	rec.Session.Token, ok = ParseToken(values[0])
	return ok && len(values) == 1
}

// SessionCookies says whether cookies carry sessions here.
func (s *Stack) SessionCookies() bool { return s.o.SessionCookie }

// sessionCookie carries the session of a browser.
const sessionCookie = "tipcache-session"

// CookieSession is the session that a request's cookie has, zero for none, for one that is malformed, and
// where cookies carry none.
func (s *Stack) CookieSession(r *http.Request) (t Token) {
	if sent, err := r.Cookie(sessionCookie); err == nil && s.SessionCookies() {
		t, _ = ParseToken(sent.Value)
	}
	return t
}

// SetCookieSession has the browser keep a session. It sends it back from pages of the same
// site alone.
func (s *Stack) SetCookieSession(w http.ResponseWriter, r *http.Request, t Token) {
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
	return err == nil && strings.EqualFold(strings.TrimSpace(by), "https") && s.Admission.Trusts(peer.Addr().Unmap())
}

// A Token says that its client has been answered at a block. The hash tells whether the
// chain still has that block: it may have been set back.
type Token struct {
	Height int64  // of the block; 0 for no token
	Hash   string // what the hash of the block before it begins with, in hex; "" where that was not known
}

// Digits of a hash: how many a token that is made has, and how many of one that is read
// may be there.
const (
	hashDigits      = 12
	leastHashDigits = 8
	mostHashDigits  = 64
)

// A History knows the hashes of blocks, as *node.Pool does.
type History interface {
	// HashOf is the hash of a block in hex, "" if it is not known.
	HashOf(height int64) string
	// Replaced tells whether a block whose hash begins so is known to be none of the chain.
	Replaced(height int64, prefix string) bool
}

// TokenAt is the token of a client that has been answered at a block.
func TokenAt(height int64, h History) Token {
	hash := h.HashOf(height - 1)
	return Token{height, hash[:min(hashDigits, len(hash))]}
}

// Replaced tells whether the chain is known to have been set back behind the token's block.
func (t Token) Replaced(h History) bool { return t.Hash != "" && h.Replaced(t.Height-1, t.Hash) }

// ParseToken reads a token, which has to be just as it was made. For anything else it returns no token, and false.
func ParseToken(text string) (t Token, ok bool) {
	n := 0
	for n < len(text) && '0' <= text[n] && text[n] <= '9' {
		n++
	}
	height, err := strconv.ParseInt(text[:n], 10, 64)
	if err != nil || height <= 0 {
		return Token{}, false
	}
	t.Height = height
	if n == len(text) {
		return t, true
	}
	if t.Hash = text[n+1:]; text[n] != '.' || !isHash(t.Hash) {
		return Token{}, false
	}
	return t, true
}

func isHash(text string) bool {
	for _, c := range []byte(text) {
		if !('0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f') {
			return false
		}
	}
	return leastHashDigits <= len(text) && len(text) <= mostHashDigits
}

// AppendTo appends the token as clients have it.
func (t Token) AppendTo(b []byte) []byte {
	b = strconv.AppendInt(b, t.Height, 10)
	if t.Hash != "" {
		b = append(append(b, '.'), t.Hash...)
	}
	return b
}

// String is the token as clients have it.
func (t Token) String() string { return string(t.AppendTo(nil)) }

// announced are the blocks that clients were told of by events. What such a client reads next, on
// whatever connection, is to be no older: it may not look at the marks of stale answers.
type announced struct {
	some atomic.Bool // spares those who read a lock where nobody listens

	mu sync.RWMutex
	by map[string]*Listener // network
}

// A Listener is a client that is told of blocks by events, over one connection or several.
type Listener struct {
	of      *announced
	network string
	open    int    // connections; guarded by of.mu
	told    sights // of no epoch
}

// Listen notes that a client is told of blocks over the connection of its request. Close must be
// called in the end.
func (s *Stack) Listen(r *http.Request) *Listener {
	network := s.Admission.Network(r)
	h := &s.announced
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.by[network]
	if l == nil {
		if h.by == nil {
			h.by = map[string]*Listener{}
		}
		l = &Listener{of: h, network: network}
		h.by[network] = l
	}
	l.open++
	h.some.Store(true)
	return l
}

// Announce notes the block of an event before that is sent.
func (l *Listener) Announce(height int64) { l.told.raise(sight{height: height}) }

// Close ends a connection's part.
func (l *Listener) Close() {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if l.open--; l.open == 0 {
		delete(l.of.by, l.network)
		l.of.some.Store(len(l.of.by) > 0)
	}
}

// Announced is the newest block that a request's client was told of by an event, 0 for none. Where
// that was awaited in vain, waiting for it is of no use.
func (s *Stack) Announced(r *http.Request) (height int64, awaited bool) {
	l := s.listener(r)
	if l == nil {
		return 0, false
	}
	told := l.told.look()
	return told.height, told.awaited
}

// AwaitedAnnounced notes that a block which a request's client was told of was awaited in vain.
func (s *Stack) AwaitedAnnounced(r *http.Request, height int64) {
	if l := s.listener(r); l != nil {
		l.told.raise(sight{height: height, awaited: true})
	}
}

// listener is the one that a request's client is, nil for none.
func (s *Stack) listener(r *http.Request) *Listener {
	if !s.announced.some.Load() {
		return nil
	}
	network := s.Admission.Network(r)
	s.announced.mu.RLock()
	defer s.announced.mu.RUnlock()
	return s.announced.by[network]
}
