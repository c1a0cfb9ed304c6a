//go:build unix

package transport

import (
	"net"
	"syscall"
)

// A probe tests an idle connection.
type probe struct {
	socket syscall.RawConn // nil if c has none
	peek   func(fd uintptr)
	open   bool // result of peek
	one    [1]byte
}

func (p *probe) init(c net.Conn) {
	if socket, ok := c.(syscall.Conn); ok {
		p.socket, _ = socket.SyscallConn()
	}
	p.peek = func(fd uintptr) {
		_, _, err := syscall.Recvfrom(int(fd), p.one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		p.open = err == syscall.EAGAIN || err == syscall.EWOULDBLOCK
	}
}

// isOpen reports whether the server has neither closed the connection nor sent unexpected bytes.
func (p *probe) isOpen() bool {
	if p.socket == nil {
		return true
	}
	p.open = false
	err := p.socket.Control(p.peek) // ignores the deadline of the last request
	return err == nil && p.open
}
