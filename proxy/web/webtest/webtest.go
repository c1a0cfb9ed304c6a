// Package webtest serves tests by connections of package web.
package webtest

import (
	"net"

	"github.com/tipcache/tipcache/proxy/web"
)

// A Listener accepts connections as clients are accepted: with a lane, nil for none, and told when
// they end, nil for nothing.
type Listener struct {
	net.Listener
	Lane  web.Lane
	Ended func()
}

// Accept implements [net.Listener].
func (l Listener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return web.NewConn(conn, l.Lane, nil, l.Ended), nil
}
