// Package porttest gives ports to the servers of tests.
package porttest

import (
	"fmt"
	"syscall"
	"testing"
)

// Address is an address of 127.0.0.1 for a server, which may end and come back on
// it. Until the test ends no other process is given its port by the kernel, and
// connections are refused while no server listens: a socket that never listens is
// bound to it, which does not stop servers from binding it with SO_REUSEADDR.
func Address(t testing.TB) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	syscall.CloseOnExec(fd)
	port, err := bind(fd)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// bind binds a socket to a port of the kernel's choice.
func bind(fd int) (port int, err error) {
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		return 0, err
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		return 0, err
	}
	bound, err := syscall.Getsockname(fd)
	if err != nil {
		return 0, err
	}
	return bound.(*syscall.SockaddrInet4).Port, nil
}
