package conn

import (
	"errors"
	"net"
	"time"
)

// An opener reads PROXY headers and does TLS handshakes concurrently. It has a goroutine that accepts connections and
// one for each connection that is being opened. Close waits for these.
type opener struct {
	listener *Listener
	ready    chan accepted
}

type accepted struct {
	conn net.Conn
	err  error
}

func (s *opener) run() {
	for {
		slot, err := s.listener.accept(nil)
		if err == nil {
			s.listener.works.Go(func() { s.open(slot) })
			continue
		}
		if !s.send(accepted{nil, err}) || errors.Is(err, net.ErrClosed) {
			return
		}
	}
}

// open reads the PROXY header and does the TLS handshake, as configured, and sends the connection to accept.
func (s *opener) open(slot *slot) {
	l, deadline := s.listener, time.Time{}
	if l.o.Header > 0 {
		deadline = time.Now().Add(l.o.Header)
	}
	if l.o.Proxies != nil && !l.readProxied(slot, deadline) {
		return
	}
	opened := net.Conn(slot.conn)
	if l.o.TLS != nil {
		secured, err := Secure(l.ended, slot.conn, l.o.TLS, l.o.Lane, deadline)
		if err != nil {
			l.o.Logger.Debug("TLS handshake failed", "client", slot.client, "error", err)
			return
		}
		l.mu.Lock()
		slot.conn = Accepted(secured) // which the listener closes through the lane
		l.mu.Unlock()
		opened = secured
	}
	if !s.send(accepted{opened, nil}) {
		_ = opened.Close()
	}
}

// send makes accept return a. It returns false if the listener is closed.
func (s *opener) send(a accepted) bool {
	select {
	case s.ready <- a:
		return true
	case <-s.listener.ended.Done():
		return false
	}
}

func (s *opener) accept() (net.Conn, error) {
	select {
	case a := <-s.ready:
		return a.conn, a.err
	case <-s.listener.ended.Done():
		return nil, net.ErrClosed
	}
}
