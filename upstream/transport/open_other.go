//go:build !unix

package transport

import "net"

// isOpen always returns true, as it cannot test the connection. A request on a closed connection fails, and RoundTrip
// resends a GET.
func isOpen(net.Conn) bool { return true }
