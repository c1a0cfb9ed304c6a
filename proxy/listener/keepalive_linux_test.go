package listener_test

import (
	"net"
	"syscall"
	"testing"

	"github.com/tipcache/tipcache/proxy/listener"
)

// A client that is gone without a word is found as on a listener of package net.
func TestKeepAliveHasValuesOfPackageNet(t *testing.T) {
	ours, err := listener.Listen(t.Context(), "127.0.0.1:0", listener.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	theirs, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer theirs.Close()
	if got, want := keepAliveOf(t, ours), keepAliveOf(t, theirs); got != want {
		t.Errorf("on, idle, interval and count are %v, want %v", got, want)
	}
}

func keepAliveOf(t *testing.T, l net.Listener) (is [4]int) {
	t.Helper()
	client, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	accepted, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer accepted.Close()
	raw, err := accepted.(syscall.Conn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) {
		for i, o := range [...][2]int{
			{syscall.SOL_SOCKET, syscall.SO_KEEPALIVE}, {syscall.IPPROTO_TCP, syscall.TCP_KEEPIDLE},
			{syscall.IPPROTO_TCP, syscall.TCP_KEEPINTVL}, {syscall.IPPROTO_TCP, syscall.TCP_KEEPCNT},
		} {
			if is[i], err = syscall.GetsockoptInt(int(fd), o[0], o[1]); err != nil {
				t.Error(err)
			}
		}
	}); err != nil {
		t.Fatal(err)
	}
	return is
}
