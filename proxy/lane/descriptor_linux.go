package lane

import (
	"net"
	"syscall"
)

// A descriptor is a Socket that uses raw system calls. The Go scheduler need not know of these, because they never block.
type descriptor struct {
	syscallConn
	raw syscall.RawConn
}

// socketOf returns c as a Socket, or nil.
func socketOf(c net.Conn) Socket {
	if s, ok := c.(Socket); ok {
		return s
	}
	s, ok := c.(syscallConn)
	if !ok {
		return nil
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return nil // a later Read returns the error
	}
	return &descriptor{s, raw}
}

func (d *descriptor) OnReadable(f func(fd uintptr) (done bool)) error {
	err := d.raw.Read(f)
	if op, ok := err.(*net.OpError); ok { //nolint:errorlint // package net does not wrap it
		op.Op = "read" // net/http checks it
	}
	return err
}

func (d *descriptor) TryRead(fd uintptr, p []byte) (int, error) { return receive(fd, p) }

func (d *descriptor) TryWrite(fd uintptr, head, body []byte) (int, error) {
	if len(body) == 0 {
		return send(fd, head)
	}
	return sendBoth(fd, head, body)
}
