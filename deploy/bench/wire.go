package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"
)

// wire is one connection of a client that costs little beside what it measures.
// It knows as much of HTTP as tipcache answers a GET with: a Content-Length.
type wire struct {
	conn net.Conn
	in   *bufio.Reader
	out  []byte
}

// reply is what is of interest of an answer.
type reply struct {
	status int
	hit    bool // Cache-Status says so
	took   time.Duration
}

// dialWire connects to the host of a URL. The connection is closed when ctx
// ends; stop does it before.
func dialWire(ctx context.Context, url string) (w *wire, stop func(), err error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return nil, nil, err
	}
	undo := context.AfterFunc(ctx, func() { _ = conn.Close() })
	return &wire{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}, func() { undo(); _ = conn.Close() }, nil
}

// get asks for a path at a height and reads the answer to its end.
func (w *wire) get(path string, height int) (reply, error) {
	w.out = append(append(w.out[:0], "GET "...), path...)
	w.out = append(w.out, " HTTP/1.1\r\nHost: bench\r\nX-Block-Height: "...)
	w.out = append(strconv.AppendInt(w.out, int64(height), 10), "\r\n\r\n"...)
	sent := time.Now()
	if _, err := w.conn.Write(w.out); err != nil {
		return reply{}, err
	}
	r, err := w.read()
	r.took = time.Since(sent)
	return r, err
}

var (
	contentLength = []byte("Content-Length: ")
	cacheStatus   = []byte("Cache-Status: ")
	hitMember     = []byte("; hit")
)

func (w *wire) read() (r reply, err error) {
	line, err := w.in.ReadSlice('\n')
	if err != nil {
		return r, err
	}
	if len(line) < len("HTTP/1.1 200") {
		return r, fmt.Errorf("not a status line: %q", line)
	}
	if r.status, err = strconv.Atoi(string(line[9:12])); err != nil {
		return r, err
	}
	length := 0
	for {
		if line, err = w.in.ReadSlice('\n'); err != nil {
			return r, err
		}
		if len(line) == len("\r\n") {
			break
		}
		if value, ok := bytes.CutPrefix(line, contentLength); ok {
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return r, err
			}
		}
		if value, ok := bytes.CutPrefix(line, cacheStatus); ok {
			r.hit = bytes.Contains(value, hitMember)
		}
	}
	_, err = w.in.Discard(length)
	return r, err
}
