package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"
)

// A crowd is clients with one open connection each.
type crowd struct {
	addr    string
	members []*member
}

type member struct {
	conn net.Conn
	in   *bufio.Reader
}

// answered is what one member of a crowd got.
type answered struct {
	status int
	took   time.Duration
	err    error
}

// crowdPatience is the longest that a member waits for an answer.
const crowdPatience = time.Minute

// newCrowd has n members before the server, who do not know it yet.
func newCrowd(url string, n int) *crowd {
	c := &crowd{addr: host(url)}
	for range n {
		c.members = append(c.members, &member{})
	}
	return c
}

func (c *crowd) close() {
	for _, m := range c.members {
		m.hangUp()
	}
}

// gather connects those who are not, or whom the server has forgotten, and has
// each ask a path once, which the server knows by then.
func (c *crowd) gather(ctx context.Context, path string) error {
	text := request(path)
	for _, m := range c.members {
		got := m.ask(text)
		if got.err != nil {
			if err := m.dial(ctx, c.addr); err != nil {
				return err
			}
			got = m.ask(text)
		}
		if got.err != nil || got.status != http.StatusOK {
			return fmt.Errorf("%s%s: status %d: %w", c.addr, path, got.status, got.err)
		}
	}
	return nil
}

// connect connects those who are not.
func (c *crowd) connect(ctx context.Context) error {
	for _, m := range c.members {
		if m.conn != nil {
			continue
		}
		if err := m.dial(ctx, c.addr); err != nil {
			return err
		}
	}
	return nil
}

func (m *member) dial(ctx context.Context, addr string) error {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return err
	}
	m.conn, m.in = conn, bufio.NewReader(conn)
	return nil
}

// rush has all members ask for one path at the same moment.
func (c *crowd) rush(path string) []answered {
	answers, start, text := make([]answered, len(c.members)), make(chan struct{}), request(path)
	var all sync.WaitGroup
	for i, m := range c.members {
		all.Go(func() {
			<-start
			answers[i] = m.ask(text)
		})
	}
	time.Sleep(10 * time.Millisecond) // let them come to the line
	close(start)
	all.Wait()
	return answers
}

// each has every path asked for once, by whichever member is free.
func (c *crowd) each(paths []string) []answered {
	answers, next := make([]answered, len(paths)), make(chan int)
	var all sync.WaitGroup
	for _, m := range c.members {
		all.Go(func() {
			for i := range next {
				answers[i] = m.ask(request(paths[i]))
			}
		})
	}
	for i := range paths {
		next <- i
	}
	close(next)
	all.Wait()
	return answers
}

func request(path string) []byte {
	return []byte("GET " + path + " HTTP/1.1\r\nHost: bench\r\n\r\n")
}

// ask sends a request and reads the answer to its end.
func (m *member) ask(text []byte) answered {
	if m.conn == nil {
		return answered{err: net.ErrClosed}
	}
	sent := time.Now()
	_ = m.conn.SetDeadline(sent.Add(crowdPatience))
	_, err := m.conn.Write(text)
	if err != nil {
		return m.lost(err)
	}
	resp, err := http.ReadResponse(m.in, nil)
	if err != nil {
		return m.lost(err)
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return m.lost(err)
	}
	if resp.Close {
		m.hangUp()
	}
	return answered{status: resp.StatusCode, took: time.Since(sent)}
}

func (m *member) lost(err error) answered {
	m.hangUp()
	return answered{err: err}
}

func (m *member) hangUp() {
	if m.conn != nil {
		_ = m.conn.Close()
		m.conn = nil
	}
}
