package web

import (
	"net"
	"syscall"

	"github.com/tipcache/tipcache/proxy/lane"
)

// A descriptor is a socket that the fast lane reads and writes in system calls that
// the Go scheduler does not hear of, for they never block.
type descriptor struct {
	*socket
	raw syscall.RawConn
}

// forLane is the socket as the fast lane uses it.
func (s *socket) forLane() net.Conn {
	c, ok := s.Conn.(syscall.Conn)
	if !ok {
		return s
	}
	raw, err := c.SyscallConn()
	if err != nil {
		return s // a later read fails with the cause
	}
	return &descriptor{s, raw}
}

var _ lane.Socket = &descriptor{}

// Turns implements [lane.Socket].
func (d *descriptor) Turns(turn func(fd uintptr) (done bool)) error {
	err := d.raw.Read(turn)
	if op, ok := err.(*net.OpError); ok { //nolint:errorlint // package net does not wrap it
		op.Op = "read" // net/http looks at that
	}
	return err
}

// TryRead implements [lane.Socket].
func (d *descriptor) TryRead(fd uintptr, p []byte) (int, error) {
	return transfer(syscall.SYS_READ, fd, p)
}

// TryWrite implements [lane.Socket].
func (d *descriptor) TryWrite(fd uintptr, p []byte) (int, error) {
	return transfer(syscall.SYS_WRITE, fd, p)
}
