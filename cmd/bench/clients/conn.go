// Package clients simulates clients: sequential requests on a connection, many requests at once, and long polling runs.
// It records the responses and checks them against the node's.
package clients

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// A Conn is a client with one connection at a time, which it opens on demand. It must be used by one goroutine.
type Conn struct {
	Addr   string // of the server
	TLS    bool   // accepts any certificate
	Opened int    // connections so far

	conn net.Conn
	in   *bufio.Reader
	stop func() bool // stops watching the context
}

// A Response is a response with its duration.
type Response struct {
	rig.Response
	Took time.Duration
}

// Height returns the block that the response names, 0 for none.
func (r Response) Height() int64 {
	h, _ := strconv.ParseInt(r.Header.Get("X-Block-Height"), 10, 64)
	return h
}

// Request returns the text of a request. Headers have the form "Accept: text/plain".
func Request(method, path, body string, headers ...string) []byte {
	var b strings.Builder
	b.WriteString(method + " " + path + " HTTP/1.1\r\nHost: bench\r\n")
	for _, h := range headers {
		b.WriteString(h + "\r\n")
	}
	if body != "" {
		b.WriteString("Content-Length: " + strconv.Itoa(len(body)) + "\r\n")
	}
	b.WriteString("\r\n" + body)
	return []byte(b.String())
}

// Get requests a path.
func (c *Conn) Get(ctx context.Context, path string, headers ...string) (Response, error) {
	return c.Do(ctx, Request(http.MethodGet, path, "", headers...))
}

var errIdle = errors.New("connection closed before a response")

// patience is the timeout of a request.
const patience = 30 * time.Second

// Do sends a request and reads the response. If the server has closed an idle connection meanwhile, it sends the request
// again on a new one.
func (c *Conn) Do(ctx context.Context, request []byte) (Response, error) {
	reused := c.conn != nil
	r, err := c.try(ctx, request)
	if reused && errors.Is(err, errIdle) {
		r, err = c.try(ctx, request)
	}
	return r, err
}

func (c *Conn) try(ctx context.Context, request []byte) (r Response, err error) {
	if err := c.Open(ctx); err != nil {
		return r, err
	}
	sent, closes := time.Now(), true
	_ = c.conn.SetDeadline(sent.Add(patience))
	if err = ctx.Err(); err == nil {
		_, err = c.conn.Write(request)
	}
	if err == nil {
		_, err = c.in.Peek(1)
	}
	switch {
	case err == nil:
		r.Response, closes, err = read(c.in)
	case errors.Is(err, io.EOF) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE):
		err = errors.Join(errIdle, ctx.Err(), err)
	default:
		err = errors.Join(ctx.Err(), err)
	}
	if closes || err != nil {
		c.Close()
	}
	r.Took = time.Since(sent)
	return r, err
}

func read(in *bufio.Reader) (r rig.Response, closes bool, err error) {
	resp, err := http.ReadResponse(in, nil)
	if err != nil {
		return r, true, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return rig.Response{Status: resp.StatusCode, Header: resp.Header, Body: body}, resp.Close, err
}

// Open connects unless there is a connection, which is closed when ctx ends.
func (c *Conn) Open(ctx context.Context) error {
	if c.conn != nil {
		return nil
	}
	conn, err := (&net.Dialer{Timeout: patience}).DialContext(ctx, "tcp", c.Addr)
	if err != nil {
		return err
	}
	if c.TLS {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // the rig makes the certificates
	}
	c.conn, c.in = conn, bufio.NewReader(conn)
	c.stop = context.AfterFunc(ctx, func() { _ = conn.SetDeadline(time.Unix(1, 0)) })
	c.Opened++
	return nil
}

// Close closes the connection, if there is one.
func (c *Conn) Close() {
	if c.conn != nil {
		c.stop()
		_ = c.conn.Close()
		c.conn = nil
	}
}
