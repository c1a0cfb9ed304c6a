package listener

import (
	"errors"
	"net"
	"syscall"
)

// listenConfig has the kernel find clients that are gone as package net does. Connections have that from
// their listener on Linux; package net makes four system calls for each.
func listenConfig() net.ListenConfig { return net.ListenConfig{KeepAlive: -1, Control: keepAlive} }

// keepAlive has the kernel ask after 15 s of silence, and nine times more.
func keepAlive(_, _ string, c syscall.RawConn) (err error) {
	failed := c.Control(func(fd uintptr) {
		for _, o := range [...][3]int{
			{syscall.SOL_SOCKET, syscall.SO_KEEPALIVE, 1},
			{syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE, 15},
			{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL, 15},
			{syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT, 9},
		} {
			err = errors.Join(err, syscall.SetsockoptInt(int(fd), o[0], o[1], o[2]))
		}
	})
	return errors.Join(failed, err)
}
