// Package redistest runs Redis servers for tests, and connects to them.
package redistest

import (
	"context"
	"net"
	"os/exec"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/porttest"
)

// Start runs a redis-server with additional arguments until the test ends or kill is called, which does not shut it down.
// It skips the test if redis-server is not installed.
func Start(t testing.TB, args ...string) (address string, kill func()) {
	t.Helper()
	path, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("install redis-server to run this test: it must be on the PATH")
	}
	address = porttest.Address(t)
	_, port, _ := net.SplitHostPort(address)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), path, append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", t.TempDir()}, args...)...)
	expect.NoError(t, cmd.Start())
	kill = func() { _, _ = cmd.Process.Kill(), cmd.Wait() }
	t.Cleanup(kill)
	client := Client(t, address)
	expect.Eventually(t, "response of the started Redis", func() bool { return client.Ping(t.Context()).Err() == nil })
	return address, kill
}

// Client returns a client with the options that a store requires. The end of the test closes it.
func Client(t testing.TB, address string) *redis.Client {
	t.Helper()
	logging.Disable() // clients would print each connection that a test breaks
	client := redis.NewClient(&redis.Options{Addr: address, ContextTimeoutEnabled: true, DialerRetries: 1})
	t.Cleanup(func() { _ = client.Close() })
	return client
}
