package porttest_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/porttest"
)

func TestServerReturnsOnItsAddressAfterOutage(t *testing.T) {
	address := porttest.Address(t)
	for range 3 {
		if conn, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("dial without a server: %v, %v", conn, err)
		}
		server := expect.Value(net.Listen("tcp", address))(t)
		conn := expect.Value(net.Dial("tcp", address))(t)
		accepted := expect.Value(server.Accept())(t)
		server.Close()
		accepted.Close()
		conn.Close()
	}
}

func TestNobodyElseIsGivenTheAddress(t *testing.T) {
	mine := porttest.Address(t)
	for range 200 {
		other := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
		defer other.Close()
		if got := other.Addr().String(); got == mine || got == porttest.Address(t) {
			t.Fatalf("%s was given to two", got)
		}
	}
}
