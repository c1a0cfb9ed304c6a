package listener

import (
	"errors"
	"net"

	"github.com/tipcache/tipcache/proxy/conn"
)

// opener reads proxies' headers and does the handshakes of clients that have a slot, at the same time. It owns a goroutine
// that accepts clients and one for each that is opened, for which Close waits.
type opener struct {
	below *Listener
	ready chan accepted // by Accept
}

// accepted is what Accept returns.
type accepted struct {
	conn net.Conn
	err  error
}

// run accepts clients until the listener is closed.
func (s *opener) run() {
	for {
		slot, err := s.below.accept(nil)
		if err == nil {
			s.below.works.Go(func() { s.open(slot) })
			continue
		}
		if !s.hand(accepted{nil, err}) || errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// open hands on a client whose proxy names it, and that speaks TLS if the listener does.
func (s *opener) open(slot *slot) {
	l := s.below
	if l.o.Proxies != nil && !l.readProxied(slot) {
		return
	}
	opened := net.Conn(slot.conn)
	if l.o.TLS != nil {
		secured, on, err := conn.Secure(l.ended, slot.conn, l.o.TLS, l.o.Lane, l.o.Header)
		if err != nil {
			l.o.Logger.Debug("TLS handshake failed", "client", slot.client, "error", err)
			return
		}
		l.mu.Lock()
		slot.conn = on // on the same socket
		l.mu.Unlock()
		opened = secured
	}
	if !s.hand(accepted{opened, nil}) {
		_ = opened.Close()
	}
}

// hand gives Accept what it returns; false says that the listener is closed.
func (s *opener) hand(a accepted) bool {
	select {
	case s.ready <- a:
		return true
	case <-s.below.ended.Done():
		return false
	}
}

func (s *opener) accept() (net.Conn, error) {
	select {
	case a := <-s.ready:
		return a.conn, a.err
	case <-s.below.ended.Done():
		return nil, net.ErrClosed
	}
}
