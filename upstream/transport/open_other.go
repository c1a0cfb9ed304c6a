//go:build !unix

package transport

import "net"

// isOpen cannot tell; a request by a closed connection fails, and a GET is sent again.
func isOpen(net.Conn) bool { return true }
