package lane_test

import (
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// A wire is a server's connection in memory. What the client sends arrives in
// the very pieces it was sent in, so that a test decides where a read ends.
type wire struct {
	mu       sync.Mutex
	changed  *sync.Cond
	incoming [][]byte
	news     bool // came since the server waited last
	ended    bool // the client has closed its side
	closed   bool
	parked   bool // the server waits for a request, and there is nothing
	answers  []byte
	deadline time.Time
	until    time.Time // writes are
	alarm    *time.Timer
	tries    int // to write without waiting
	turns    int // under way
}

func newWire() *wire {
	w := &wire{}
	w.changed = sync.NewCond(&w.mu)
	return w
}

func (w *wire) Read(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		switch {
		case w.closed:
			return 0, net.ErrClosed
		case !w.deadline.IsZero() && !time.Now().Before(w.deadline):
			return 0, os.ErrDeadlineExceeded
		case len(w.incoming) > 0:
			n := copy(p, w.incoming[0])
			if w.incoming[0] = w.incoming[0][n:]; len(w.incoming[0]) == 0 {
				w.incoming = w.incoming[1:]
			}
			return n, nil
		case w.ended:
			return 0, io.EOF
		}
		w.parked = len(p) > 1 // else a handler runs, and net/http looks whether the client leaves
		w.changed.Broadcast()
		w.changed.Wait()
		w.parked = false
	}
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return 0, net.ErrClosed
	}
	w.answers = append(w.answers, p...)
	return len(p), nil
}

// Turns implements [lane.Socket], as Read does it.
func (w *wire) Turns(turn func(fd uintptr) bool) error {
	w.count(1)
	defer w.count(-1)
	w.mu.Lock()
	w.news = false // a poller forgets what it told of before
	w.mu.Unlock()
	for !turn(0) {
		if err := w.await(); err != nil {
			return err
		}
	}
	return nil
}

func (w *wire) count(turns int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turns += turns
	w.changed.Broadcast()
}

// await returns when something has come, or the end: once, as a poller tells it.
func (w *wire) await() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		switch {
		case w.closed:
			return net.ErrClosed
		case !w.deadline.IsZero() && !time.Now().Before(w.deadline):
			return os.ErrDeadlineExceeded
		case w.news:
			w.news = false
			return nil
		}
		w.parked = true
		w.changed.Broadcast()
		w.changed.Wait()
		w.parked = false
	}
}

// TryRead implements [lane.Socket].
func (w *wire) TryRead(_ uintptr, p []byte) (int, error) {
	w.mu.Lock()
	waits := len(w.incoming) == 0 && !w.ended && !w.closed
	w.mu.Unlock()
	if waits {
		return 0, syscall.EAGAIN
	}
	n, err := w.Read(p)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err
}

// TryWrite implements [lane.Socket]. It has room for the beginning of what is
// longer than a few bytes, and sometimes for nothing.
func (w *wire) TryWrite(_ uintptr, head, body []byte) (int, error) {
	if w.tries++; w.tries%3 == 0 {
		return 0, syscall.EAGAIN
	}
	p := slices.Concat(head, body)
	return w.Write(p[:min(len(p), 40*w.tries)])
}

func (w *wire) Heard(time.Time) {}

// Close waits for the turns to end, as package net does: who closes a connection
// within one waits forever.
func (w *wire) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.changed.Broadcast()
	for w.turns > 0 {
		w.changed.Wait()
	}
	return nil
}

func (w *wire) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.alarm != nil {
		w.alarm.Stop()
		w.alarm = nil
	}
	if w.deadline = t; !t.IsZero() {
		w.alarm = time.AfterFunc(time.Until(t), func() {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.changed.Broadcast()
		})
	}
	w.changed.Broadcast()
	return nil
}

func (w *wire) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.until = t
	return nil
}

func (w *wire) SetDeadline(t time.Time) error { return w.SetReadDeadline(t) }
func (w *wire) LocalAddr() net.Addr           { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80} }
func (w *wire) RemoteAddr() net.Addr          { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 4711} }

// send is the client's: one piece.
func (w *wire) send(piece []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(piece) > 0 && !w.ended {
		w.parked = false
		w.incoming = append(w.incoming, piece)
		w.news = true
	}
	w.changed.Broadcast()
}

// end closes the client's side.
func (w *wire) end() { w.last("") }

// last sends a piece, and with it the end.
func (w *wire) last(piece string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if piece != "" {
		w.incoming = append(w.incoming, []byte(piece))
	}
	w.ended, w.news = true, true
	w.changed.Broadcast()
}

// settle waits until the server has answered what it can.
func (w *wire) settle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.closed && (!w.parked || len(w.incoming) > 0) {
		w.changed.Wait()
	}
}

// take waits until the server closes the connection, and returns all it said.
func (w *wire) take() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.closed {
		w.changed.Wait()
	}
	return w.answers
}

// waits tells whether something the client sent has not been read.
func (w *wire) waits() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.incoming) > 0
}

// said is what the server has said so far.
func (w *wire) said() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.answers)
}

// wires listens for them.
type wires struct {
	accept chan net.Conn
	wrap   func(net.Conn) net.Conn
	close  func()
	closed chan struct{}
}

func newWires(wrap func(net.Conn) net.Conn) *wires {
	w := &wires{accept: make(chan net.Conn), wrap: wrap, closed: make(chan struct{})}
	w.close = sync.OnceFunc(func() { close(w.closed) })
	return w
}

// dial opens a connection.
func (l *wires) dial() *wire {
	w := newWire()
	select {
	case l.accept <- l.wrap(w):
	case <-l.closed:
		_ = w.Close()
	}
	return w
}

func (l *wires) Accept() (net.Conn, error) {
	select {
	case c := <-l.accept:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *wires) Close() error {
	l.close()
	return nil
}

func (l *wires) Addr() net.Addr { return &net.TCPAddr{} }

func (w *wire) isClosed() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.closed
}
