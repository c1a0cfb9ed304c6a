package cache_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
)

// A proxy forwards connections of a replica to Redis, and injects faults.
type proxy struct {
	addr   string
	target string
	ln     net.Listener
	tasks  sync.WaitGroup

	mu       sync.Mutex
	conns    map[net.Conn]bool
	requests flow
	replies  flow
	down     bool
}

// A flow says what the proxy does with the bytes of one direction.
type flow int

const (
	forward       flow = iota
	closeConn          // closes the connection instead
	closeConnOnce      // the same, and forwards the next bytes
	discard
)

// startProxy runs a proxy for target until the test ends.
func startProxy(t testing.TB, target string) *proxy {
	t.Helper()
	ln := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	p := &proxy{addr: ln.Addr().String(), target: target, ln: ln, conns: map[net.Conn]bool{}}
	p.tasks.Go(p.accept)
	t.Cleanup(func() {
		p.cut()
		ln.Close()
		p.tasks.Wait()
	})
	return p
}

func (p *proxy) accept() {
	for {
		in, err := p.ln.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", p.target)
		if err != nil || !p.add(in, out) {
			in.Close()
			continue
		}
		p.tasks.Go(func() { p.copy(out, in, &p.requests) })
		p.tasks.Go(func() { p.copy(in, out, &p.replies) })
	}
}

// add registers a pair of connections. It returns false after cut.
func (p *proxy) add(in, out net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		out.Close()
		return false
	}
	p.conns[in], p.conns[out] = true, true
	return true
}

func (p *proxy) copy(to, from net.Conn, direction *flow) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		switch p.next(direction) {
		case closeConn:
			return
		case discard:
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil && !errors.Is(err, io.ErrShortWrite) {
			return
		}
	}
}

// next returns what to do with the next bytes of a direction.
func (p *proxy) next(direction *flow) flow {
	p.mu.Lock()
	defer p.mu.Unlock()
	if *direction == closeConnOnce {
		*direction = forward
		return closeConn
	}
	return *direction
}

func (p *proxy) set(requests, replies flow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests, p.replies, p.down = requests, replies, false
}

// dropRequests closes connections before a command reaches Redis.
func (p *proxy) dropRequests() { p.set(closeConn, forward) }

// dropReplies closes connections after Redis has executed a command.
func (p *proxy) dropReplies() { p.set(forward, closeConn) }

// dropReply drops one reply.
func (p *proxy) dropReply() { p.set(forward, closeConnOnce) }

// stall accepts connections and discards all bytes.
func (p *proxy) stall() { p.set(discard, discard) }

// heal ends the fault.
func (p *proxy) heal() { p.set(forward, forward) }

// cut closes all connections and refuses new ones.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for conn := range p.conns {
		conn.Close()
	}
	clear(p.conns)
}
