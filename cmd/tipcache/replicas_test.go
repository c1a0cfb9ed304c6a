package main

import (
	"net"
	"os/exec"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/porttest"
)

// realRedis starts a Redis on a free port.
func realRedis(t *testing.T) (address string) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("install redis-server to run this test: it must be on the PATH")
	}
	address = porttest.Address(t)
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir())
	expect.NoError(t, cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	client := redis.NewClient(&redis.Options{Addr: address})
	t.Cleanup(func() { _ = client.Close() })
	expect.Eventually(t, "response of the started Redis", func() bool { return client.Ping(t.Context()).Err() == nil })
	return address
}
