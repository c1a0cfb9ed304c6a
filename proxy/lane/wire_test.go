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

// A wire is a server's connection in memory. A read returns one piece as the client sent it, so that a test decides where
// a read ends.
type wire struct {
	mu        sync.Mutex
	changed   *sync.Cond
	incoming  [][]byte
	arrived   bool // bytes or EOF since the last wait
	ended     bool // the client has closed its side
	closed    bool
	parked    bool // the server waits for a request
	answers   []byte
	deadline  time.Time
	until     time.Time // write deadline
	alarm     *time.Timer
	capacity  capacity
	tries     int // calls of TryWrite
	callbacks int // running OnReadable calls
}

// A capacity says how much of a response a wire accepts.
type capacity int

const (
	some capacity = iota // TryWrite writes a part, Write everything
	all
	none // writes block until the capacity changes
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
		err := w.readError()
		switch {
		case err != nil:
			return 0, err
		case len(w.incoming) > 0:
			return w.receive(p), nil
		case w.ended:
			return 0, io.EOF
		}
		w.parked = len(p) > 1 // a read of one byte detects a disconnect while a handler runs
		w.changed.Broadcast()
		w.changed.Wait()
		w.parked = false
	}
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.capacity == none && !w.closed {
		w.changed.Wait()
	}
	if w.closed {
		return 0, net.ErrClosed
	}
	w.answers = append(w.answers, p...)
	return len(p), nil
}

// OnReadable implements [lane.Socket].
func (w *wire) OnReadable(f func(fd uintptr) bool) error {
	w.count(1)
	defer w.count(-1)
	w.mu.Lock()
	w.arrived = false // a poller drops earlier events
	err := w.readError()
	w.mu.Unlock()
	for err == nil && !f(0) {
		err = w.waitReadable()
	}
	return err
}

// readError returns the error of reads after the deadline or Close.
func (w *wire) readError() error {
	switch {
	case w.closed:
		return net.ErrClosed
	case !w.deadline.IsZero() && !time.Now().Before(w.deadline):
		return os.ErrDeadlineExceeded
	}
	return nil
}

func (w *wire) count(callbacks int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.callbacks += callbacks
	w.changed.Broadcast()
}

// waitReadable waits for bytes or EOF. Like a poller, it returns once for each.
func (w *wire) waitReadable() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for {
		if err := w.readError(); err != nil {
			return err
		}
		if w.arrived {
			w.arrived = false
			return nil
		}
		w.parked = true
		w.changed.Broadcast()
		w.changed.Wait()
		w.parked = false
	}
}

// TryRead implements [lane.Socket]. It ignores deadlines.
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

// receive requires the lock and a piece.
func (w *wire) receive(p []byte) int {
	n := copy(p, w.incoming[0])
	if w.incoming[0] = w.incoming[0][n:]; len(w.incoming[0]) == 0 {
		w.incoming = w.incoming[1:]
	}
	return n
}

// TryWrite implements [lane.Socket]. With capacity some it writes a part, or nothing.
func (w *wire) TryWrite(_ uintptr, head, body []byte) (int, error) {
	w.mu.Lock()
	capacity := w.capacity
	w.mu.Unlock()
	p := slices.Concat(head, body)
	if w.tries++; capacity == none || capacity == some && w.tries%3 == 0 {
		return 0, syscall.EAGAIN
	}
	if capacity == some {
		p = p[:min(len(p), 40*w.tries)]
	}
	return w.Write(p)
}

func (w *wire) MarkActive(time.Time) {}

// Close waits for the callbacks to return, as package net does. Calling it in a callback blocks forever.
func (w *wire) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	w.changed.Broadcast()
	for w.callbacks > 0 {
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

// send sends one piece from the client.
func (w *wire) send(piece []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(piece) > 0 && !w.ended {
		w.parked = false
		w.incoming = append(w.incoming, piece)
		w.arrived = true
	}
	w.changed.Broadcast()
}

func (w *wire) end() { w.sendAndClose("") }

func (w *wire) sendAndClose(piece string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if piece != "" {
		w.incoming = append(w.incoming, []byte(piece))
	}
	w.ended, w.arrived = true, true
	w.changed.Broadcast()
}

func (w *wire) setCapacity(r capacity) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.capacity = r
	w.changed.Broadcast()
}

// settle waits until the server waits for a request.
func (w *wire) settle() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.closed && (!w.parked || len(w.incoming) > 0) {
		w.changed.Wait()
	}
}

// waitClosed waits until the server closes the connection, and returns its output.
func (w *wire) waitClosed() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	for !w.closed {
		w.changed.Wait()
	}
	return w.answers
}

func (w *wire) output() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return string(w.answers)
}

// wires is a listener for wires.
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
