package web

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
)

// A seenBlock is a block that a client has seen.
type seenBlock struct {
	epoch, height int64
	givenUp       bool // waiting for it has failed, so later requests do not wait
}

// isLater reports whether s is a later block than other, or says more about the same block.
func (s seenBlock) isLater(other seenBlock) bool {
	switch {
	case s.epoch != other.epoch:
		return s.epoch > other.epoch
	case s.height != other.height:
		return s.height > other.height
	default:
		return s.givenUp && !other.givenUp
	}
}

// seenBlocks keeps the latest block that a client has seen on its connection, so that later responses there are not
// older. It never goes back.
type seenBlocks struct{ highest atomic.Pointer[seenBlock] }

func (s *seenBlocks) load() seenBlock {
	if highest := s.highest.Load(); highest != nil {
		return *highest
	}
	return seenBlock{}
}

// lastAdvanced is the block that most connections advance to next. They share it, so that a block makes no garbage for
// each of them, and requests on many connections find it in the processor's caches.
var lastAdvanced atomic.Pointer[seenBlock]

func (s *seenBlocks) advance(to seenBlock) {
	for {
		before := s.highest.Load()
		if before != nil && !to.isLater(*before) || to == (seenBlock{}) {
			return
		}
		raised := lastAdvanced.Load()
		if raised == nil || *raised != to {
			other := to
			raised = &other
			lastAdvanced.Store(raised)
		}
		if s.highest.CompareAndSwap(before, raised) {
			return
		}
	}
}

// Arrive sets the connection of the record, nil for none of ours. What was seen there counts as of now: on HTTP/2
// other requests may be under way.
func (rec *Record) Arrive(client *Conn) {
	if rec.client = client; client != nil {
		rec.before = client.seen.load()
	}
}

// Leave records on the connection, once the request is answered, at which block it was.
func (rec *Record) Leave() {
	if rec.client != nil {
		rec.client.seen.advance(rec.shown)
	}
}

// Seen returns the latest block of an epoch that the client had seen on its connection when the request arrived; 0 for
// none. givenUp says that waiting for it has failed before.
func (rec *Record) Seen(epoch int64) (height int64, givenUp bool) {
	if rec.before.epoch != epoch {
		return 0, false
	}
	return rec.before.height, rec.before.givenUp
}

// Show records the block that the client is about to see; of several the latest.
func (rec *Record) Show(epoch, height int64) {
	if s := (seenBlock{epoch: epoch, height: height}); s.isLater(rec.shown) {
		rec.shown = s
	}
}

// GiveUp records that waiting for the block that the client has seen has failed.
func (rec *Record) GiveUp() {
	rec.before.givenUp = true
	if rec.client != nil {
		rec.client.seen.advance(rec.before)
	}
}

// A Session is what a client has seen by its own account. It binds this request alone, unlike what was seen on the
// connection, which an ingress may share among clients.
type Session struct {
	Token Token // from the header or the cookie; zero for none
	Least int64 // the response must not be older than this block; 0 for none
	Reset bool  // the token's block was rolled back
}

// Resume sets the session from the values of the session header. It returns false if they are malformed.
func (rec *Record) Resume(values []string) (ok bool) {
	if values = Given(values); len(values) == 0 {
		return true
	}
	rec.Session.Token, ok = ParseToken(values[0])
	return ok && len(values) == 1
}

// SessionCookies reports whether cookies carry sessions.
func (s *Stack) SessionCookies() bool { return s.o.SessionCookie }

// sessionCookie is the name of the cookie that carries the session of a browser.
const sessionCookie = "tipcache-session"

// CookieSession returns the session in the cookie of a request. It is zero if there is none, if it is malformed, or if
// cookies carry no sessions.
func (s *Stack) CookieSession(r *http.Request) (t Token) {
	if sent, err := r.Cookie(sessionCookie); err == nil && s.SessionCookies() {
		t, _ = ParseToken(sent.Value)
	}
	return t
}

// SetCookieSession sets the session cookie. Browsers send it back only from pages of the same site.
func (s *Stack) SetCookieSession(w http.ResponseWriter, r *http.Request, t Token) {
	http.SetCookie(w, &http.Cookie{
		Name: sessionCookie, Value: t.String(), Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: s.isSecure(r),
	})
}

// isSecure reports whether the client uses TLS, to us or to a trusted proxy.
func (s *Stack) isSecure(r *http.Request) bool {
	if r.TLS != nil {
		return true
	}
	by, _, _ := strings.Cut(r.Header.Get("X-Forwarded-Proto"), ",")
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && strings.EqualFold(strings.TrimSpace(by), "https") && s.Admission.Trusts(peer.Addr().Unmap())
}

// A Token says which block its client has seen. Its hash shows whether that block was rolled back.
type Token struct {
	Height int64  // of the block; 0 for no token
	Hash   string // prefix of the hash of the block before it, in hex; "" if that was unknown
}

// Digits of a hash: in a new token, and the fewest and the most that are accepted.
const (
	hashDigits      = 12
	leastHashDigits = 8
	mostHashDigits  = 64
)

// A History knows the hashes of blocks; *node.Pool implements it.
type History interface {
	// HashOf returns the hash of a block in hex, "" if it is unknown.
	HashOf(height int64) string
	// Replaced reports whether a block with this hash prefix is known to have been rolled back.
	Replaced(height int64, prefix string) bool
}

// TokenAt returns the token of a client that has seen a block.
func TokenAt(height int64, h History) Token {
	hash := h.HashOf(height - 1)
	return Token{height, hash[:min(hashDigits, len(hash))]}
}

// Replaced reports whether the token's block is known to have been rolled back.
func (t Token) Replaced(h History) bool { return t.Hash != "" && h.Replaced(t.Height-1, t.Hash) }

// ParseToken reads a token. It accepts only what AppendTo writes.
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

// AppendTo appends the token as clients get it.
func (t Token) AppendTo(b []byte) []byte {
	b = strconv.AppendInt(b, t.Height, 10)
	if t.Hash != "" {
		b = append(append(b, '.'), t.Hash...)
	}
	return b
}

// String returns the token as clients get it.
func (t Token) String() string { return string(t.AppendTo(nil)) }

// eventClients are the clients that are notified about blocks by events. What such a client reads next, on whatever
// connection, must be no older: it may ignore the marks of stale responses.
type eventClients struct {
	some atomic.Bool // spares readers the lock while there are none

	mu sync.RWMutex
	by map[string]*EventClient // network
}

// An EventClient is a client that is notified about blocks by events, over one connection or several.
type EventClient struct {
	of      *eventClients
	network string
	open    int        // connections; guarded by of.mu
	seen    seenBlocks // of no epoch
}

// Listen records that a client is notified about blocks over the connection of its request. The caller must call
// Close.
func (s *Stack) Listen(r *http.Request) *EventClient {
	network := s.Admission.Network(r)
	h := &s.eventClients
	h.mu.Lock()
	defer h.mu.Unlock()
	l := h.by[network]
	if l == nil {
		if h.by == nil {
			h.by = map[string]*EventClient{}
		}
		l = &EventClient{of: h, network: network}
		h.by[network] = l
	}
	l.open++
	h.some.Store(true)
	return l
}

// Announce records the block of an event before the event is sent.
func (l *EventClient) Announce(height int64) { l.seen.advance(seenBlock{height: height}) }

// Close ends the use of one connection.
func (l *EventClient) Close() {
	l.of.mu.Lock()
	defer l.of.mu.Unlock()
	if l.open--; l.open == 0 {
		delete(l.of.by, l.network)
		l.of.some.Store(len(l.of.by) > 0)
	}
}

// NotifiedBlock returns the newest block that the client of a request was notified about by an event; 0 for none.
// givenUp says that waiting for it has failed before.
func (s *Stack) NotifiedBlock(r *http.Request) (height int64, givenUp bool) {
	l := s.eventClient(r)
	if l == nil {
		return 0, false
	}
	seen := l.seen.load()
	return seen.height, seen.givenUp
}

// GiveUpOn records that waiting for a block that the client of a request was notified about has failed.
func (s *Stack) GiveUpOn(r *http.Request, height int64) {
	if l := s.eventClient(r); l != nil {
		l.seen.advance(seenBlock{height: height, givenUp: true})
	}
}

// eventClient returns the event client that sent a request, nil for none.
func (s *Stack) eventClient(r *http.Request) *EventClient {
	if !s.eventClients.some.Load() {
		return nil
	}
	network := s.Admission.Network(r)
	s.eventClients.mu.RLock()
	defer s.eventClients.mu.RUnlock()
	return s.eventClients.by[network]
}
