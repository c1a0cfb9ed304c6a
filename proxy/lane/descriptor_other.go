//go:build !linux

package lane

import "net"

// socketOf returns c as a Socket, or nil.
func socketOf(c net.Conn) Socket {
	s, _ := c.(Socket)
	return s
}
