package conn_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/upstream/expect"
)

// Clients that disappear without closing the connection are detected as by a listener of package net.
func TestKeepAliveHasValuesOfPackageNet(t *testing.T) {
	ours := expect.Value(conn.Listen(t.Context(), "127.0.0.1:0", conn.Options{}))(t)
	defer ours.Close()
	theirs := expect.Value((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	defer theirs.Close()
	expect.Equal(t, readKeepAlive(t, ours), readKeepAlive(t, theirs), "keep-alive (on, idle, interval, count)")
}

func readKeepAlive(t *testing.T, l net.Listener) (values [4]int) {
	t.Helper()
	client := expect.Value((&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String()))(t)
	defer client.Close()
	accepted := expect.Value(l.Accept())(t)
	defer accepted.Close()
	raw, err := accepted.(syscall.Conn).SyscallConn()
	expect.NoError(t, err)
	expect.NoError(t, raw.Control(func(fd uintptr) {
		for i, o := range [...][2]int{
			{syscall.SOL_SOCKET, syscall.SO_KEEPALIVE}, {syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE},
			{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL}, {syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT},
		} {
			if values[i], err = syscall.GetsockoptInt(int(fd), o[0], o[1]); err != nil {
				t.Error(err)
			}
		}
	}))
	return values
}
