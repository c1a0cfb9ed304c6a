//go:build !unix

package transport

import "net"

// A probe cannot test connections on this system. A request on a closed connection fails, and RoundTrip repeats a read.
type probe struct{}

func (probe) init(net.Conn) {}

func (probe) isOpen() bool { return true }
