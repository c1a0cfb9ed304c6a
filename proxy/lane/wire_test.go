package lane_test

import (
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
	room     room // for answers
	tries    int  // to write without waiting
	turns    int  // under way
}

// A room is what a wire takes of an answer.
type room int

const (
	some room = iota // the beginning at once, the rest of what waits
	all              // at once
	none             // nothing, until there is room again
)

func newWire() *wire {
	w := &wire{}
	w.changed = sync.NewCond(&w.mu)
	return w
}

func (w *wire) Read(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		err := w.over()
		switch {
		case err != nil:
			return 0, err
		case len(w.incoming) > 0:
			return w.receive(p), nil
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
	for w.room == none && !w.closed {
		w.changed.Wait()
	}
	if w.closed {
		return 0, net.ErrClosed
	}
	w.answers = append(w.answers, p...)
	return len(p), nil
}

// Turns implements [lane.Socket], as Read does it: after the deadline there is none.
func (w *wire) Turns(turn func(fd uintptr) bool) error {
	w.count(1)
	defer w.count(-1)
	w.mu.Lock()
	w.news = false // a poller forgets what it told of before
	err := w.over()
	w.mu.Unlock()
	for err == nil && !turn(0) {
		err = w.await()
	}
	return err
}

// over is why nothing may be read any more.
func (w *wire) over() error {
	switch {
	case w.closed:
		return net.ErrClosed
	case !w.deadline.IsZero() && !time.Now().Before(w.deadline):
		return os.ErrDeadlineExceeded
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
		if err := w.over(); err != nil {
			return err
		}
		if w.news {
			w.news = false
			return nil
		}
		w.parked = true
		w.changed.Broadcast()
		w.changed.Wait()
		w.parked = false
	}
}

// TryRead implements [lane.Socket]. It knows no deadline.
func (w *wire) TryRead(_ uintptr, p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.closed:
		return 0, net.ErrClosed
	case len(w.incoming) > 0:
		return w.receive(p), nil
	case w.ended:
		return 0, nil
	}
	return 0, syscall.EAGAIN
}

// receive is called with the lock, where something has come.
func (w *wire) receive(p []byte) int {
	n := copy(p, w.incoming[0])
	if w.incoming[0] = w.incoming[0][n:]; len(w.incoming[0]) == 0 {
		w.incoming = w.incoming[1:]
	}
	return n
}

// TryWrite implements [lane.Socket]. Where it has some room that is for the
// beginning of what is longer than a few bytes, and sometimes for nothing.
func (w *wire) TryWrite(_ uintptr, head, body []byte) (int, error) {
	w.mu.Lock()
	room := w.room
	w.mu.Unlock()
	p := slices.Concat(head, body)
	if w.tries++; room == none || room == some && w.tries%3 == 0 {
		return 0, syscall.EAGAIN
	}
	if room == some {
		p = p[:min(len(p), 40*w.tries)]
	}
	return w.Write(p)
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
	if w.deadline = t; time.Now().Before(t) {
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

// takes says what there is room for from now on.
func (w *wire) takes(r room) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.room = r
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
