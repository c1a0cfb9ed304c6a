// Package conntest serves tests by connections of package conn.
package conntest

import (
	"net"

	"github.com/tipcache/tipcache/proxy/conn"
)

// A Listener accepts connections as clients are accepted: with a lane, nil for none, and told when
// they end, nil for nothing.
type Listener struct {
	net.Listener
	Lane  conn.Lane
	Ended func()
}

// Accept implements [net.Listener].
func (l Listener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return conn.New(accepted, l.Lane, nil, l.Ended), nil
}
