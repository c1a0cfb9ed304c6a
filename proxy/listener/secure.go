package listener

import (
	"errors"
	"net"

	"github.com/tipcache/tipcache/proxy/conn"
)

// secured does the handshakes of clients that have a slot, at the same time. It owns a goroutine
// that accepts clients and one for each handshake, for which Close waits.
type secured struct {
	below *Listener
	ready chan accepted // by Accept
}

// accepted is what Accept returns.
type accepted struct {
	conn net.Conn
	err  error
}

// run accepts clients until the listener is closed.
func (s *secured) run() {
	for {
		slot, err := s.below.accept(nil)
		if err == nil {
			s.below.works.Go(func() { s.handshake(slot) })
			continue
		}
		if !s.hand(accepted{nil, err}) || errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// handshake hands on a client that speaks TLS.
func (s *secured) handshake(slot *slot) {
	l := s.below
	conn, on, err := conn.Secure(l.ended, slot.conn, l.o.TLS, l.o.Lane, l.o.Header)
	if err != nil {
		l.o.Logger.Debug("TLS handshake failed", "client", slot.client, "error", err)
		return
	}
	l.mu.Lock()
	slot.conn = on // on the same socket
	l.mu.Unlock()
	if !s.hand(accepted{conn, nil}) {
		_ = conn.Close()
	}
}

// hand gives Accept what it returns; false says that the listener is closed.
func (s *secured) hand(a accepted) bool {
	select {
	case s.ready <- a:
		return true
	case <-s.below.ended.Done():
		return false
	}
}

func (s *secured) accept() (net.Conn, error) {
	select {
	case a := <-s.ready:
		return a.conn, a.err
	case <-s.below.ended.Done():
		return nil, net.ErrClosed
	}
}
