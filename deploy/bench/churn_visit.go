package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// visitor is a client for as long as it stays.
type visitor struct {
	*churned
	kind
	random *rand.Rand
	http   *http.Client
	asks   int
}

// asked is a request.
type asked struct {
	method string // "" is GET
	path   string
	header http.Header
	body   string
}

// received is what is of interest of an answer. Without one it is empty.
type received struct {
	status int
	header http.Header
}

func (a received) height() int64 {
	h, _ := strconv.ParseInt(a.header.Get("X-Block-Height"), 10, 64) // 0 without one
	return h
}

// visit does what the kind does, on connections of its own.
func (v *visitor) visit(ctx context.Context) {
	transport := &http.Transport{DisableCompression: true}
	defer transport.CloseIdleConnections()
	v.http = &http.Client{Transport: transport}
	v.kind.visit(v, ctx)
}

// stays pauses between two requests, and says whether there is to be another.
func (v *visitor) stays(ctx context.Context, most int) bool {
	v.asks++
	return pause(ctx, time.Duration(v.random.IntN(40))*time.Millisecond) && v.random.IntN(most) > 0 || v.asks == 1
}

// pause reports whether it lasted to the end.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}

// ask sends a request, reads its answer to the end and counts what came of it.
func (v *visitor) ask(ctx context.Context, a asked, want ...int) received {
	got, err := v.send(ctx, a)
	switch {
	case ctx.Err() != nil:
	case err != nil:
		v.tally.unexpected(v.name, fmt.Sprintf("%s: %v", a.path, err))
	case slices.Contains(want, got.status):
		v.tally.expected(v.name)
	default:
		v.tally.unexpected(v.name, fmt.Sprintf("%.80s: status %d", a.path, got.status))
	}
	return got
}

// abandon sends a request that ctx is expected to end before the answer.
func (v *visitor) abandon(ctx context.Context, a asked) {
	if _, err := v.send(ctx, a); err == nil || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		v.tally.expected(v.name)
	} else {
		v.tally.unexpected(v.name, fmt.Sprintf("%s: %v", a.path, err))
	}
}

func (v *visitor) send(ctx context.Context, a asked) (received, error) {
	if a.method == "" {
		a.method = http.MethodGet
	}
	req, err := http.NewRequestWithContext(ctx, a.method, v.tipcache.url+a.path, strings.NewReader(a.body))
	if err != nil {
		return received{}, err
	}
	for name, values := range a.header {
		req.Header[name] = values
	}
	resp, err := v.http.Do(req)
	if err != nil {
		return received{}, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return received{resp.StatusCode, resp.Header}, err
}

// raw connects, writes a text, waits and resets the connection. It has room for
// the beginning of an answer only.
func (v *visitor) raw(ctx context.Context, text string, wait func()) {
	d := net.Dialer{Control: littleRoom}
	conn, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(v.tipcache.url, "http://"))
	if err != nil {
		if ctx.Err() == nil {
			v.tally.unexpected(v.name, err.Error())
		}
		return
	}
	defer conn.Close()
	_, _ = io.WriteString(conn, text)
	wait()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	v.tally.expected(v.name)
}

// littleRoom has the kernel take in a few kilobytes before they are read.
func littleRoom(_, _ string, conn syscall.RawConn) error {
	return conn.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4<<10)
	})
}
