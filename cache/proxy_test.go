package cache_test

import (
	"errors"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
)

// proxy stands between a replica and Redis, and breaks on demand.
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

// flow is what happens to the bytes of one direction.
type flow int

const (
	forwarded   flow = iota
	refused          // the connection ends instead
	refusedOnce      // the same, and the next ones are forwarded
	swallowed        // nothing comes of them
)

// startProxy forwards to target for as long as the test.
func startProxy(t testing.TB, target string) *proxy {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	expect.NoError(t, err)
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

// add takes on a pair of connections, unless the way is cut.
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

func (p *proxy) copy(to, from net.Conn, way *flow) {
	defer to.Close()
	defer from.Close()
	buf := make([]byte, 32<<10)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		switch p.read(way) {
		case refused:
			return
		case swallowed:
			continue
		}
		if _, err := to.Write(buf[:n]); err != nil && !errors.Is(err, io.ErrShortWrite) {
			return
		}
	}
}

func (p *proxy) read(way *flow) flow {
	p.mu.Lock()
	defer p.mu.Unlock()
	if *way == refusedOnce {
		*way = forwarded
		return refused
	}
	return *way
}

func (p *proxy) set(requests, replies flow) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests, p.replies, p.down = requests, replies, false
}

// dropRequests ends connections before the request has reached Redis.
func (p *proxy) dropRequests() { p.set(refused, forwarded) }

// dropReplies ends connections after Redis has done what it was asked.
func (p *proxy) dropReplies() { p.set(forwarded, refused) }

// dropReply does so once.
func (p *proxy) dropReply() { p.set(forwarded, refusedOnce) }

// stall accepts everything and never answers.
func (p *proxy) stall() { p.set(swallowed, swallowed) }

// heal forwards again.
func (p *proxy) heal() { p.set(forwarded, forwarded) }

// cut ends all connections and refuses new ones.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for conn := range p.conns {
		conn.Close()
	}
	clear(p.conns)
}
