package lane

import (
	"net"
	"syscall"
)

// A descriptor is a socket that is read and written in system calls that the Go
// scheduler does not hear of, for they never block.
type descriptor struct {
	listened
	raw syscall.RawConn
}

// socketOf is a connection as a Socket, nil where it can be none.
func socketOf(c net.Conn) Socket {
	if s, ok := c.(Socket); ok {
		return s
	}
	s, ok := c.(listened)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil // a later read fails with the cause
	}
	return &descriptor{s, raw}
}

// Turns implements [Socket].
func (d *descriptor) Turns(turn func(fd uintptr) (done bool)) error {
	err := d.raw.Read(turn)
	if op, ok := err.(*net.OpError); ok { //nolint:errorlint // package net does not wrap it
		op.Op = "read" // net/http looks at that
	}
	return err
}

// TryRead implements [Socket].
func (d *descriptor) TryRead(fd uintptr, p []byte) (int, error) { return receive(fd, p) }

// TryWrite implements [Socket].
func (d *descriptor) TryWrite(fd uintptr, head, body []byte) (int, error) {
	if len(body) == 0 {
		return send(fd, head)
	}
	return sendBoth(fd, head, body)
}
