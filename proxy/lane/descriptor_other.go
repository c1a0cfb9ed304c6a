//go:build !linux

package lane

import "net"

// socketOf is a connection as a Socket, nil where it can be none.
func socketOf(c net.Conn) Socket {
	s, _ := c.(Socket)
	return s
}
