//go:build !unix

package transport

import "net"

// A probe cannot test connections on this system. A request on a closed connection fails, and RoundTrip resends a GET.
type probe struct{}

func (probe) init(net.Conn) {}

func (probe) isOpen() bool { return true }
