package porttest_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/tipcache/tipcache/upstream/porttest"
)

func TestServerReturnsOnItsAddressAfterOutage(t *testing.T) {
	address := porttest.Address(t)
	for range 3 {
		if conn, err := net.Dial("tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatalf("dial without a server: %v, %v", conn, err)
		}
		server, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		accepted, err := server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		server.Close()
		accepted.Close()
		conn.Close()
	}
}

func TestNobodyElseIsGivenTheAddress(t *testing.T) {
	mine := porttest.Address(t)
	for range 200 {
		other, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close()
		if got := other.Addr().String(); got == mine || got == porttest.Address(t) {
			t.Fatalf("%s was given to two", got)
		}
	}
}
