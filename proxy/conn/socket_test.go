package conn_test

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestLongWriteReturnsNumberOfBytesWritten(t *testing.T) {
	t.Parallel()
	body := make([]byte, 16<<20) // more than the kernel holds
	random := rand.NewChaCha8([32]byte{})
	_, _ = random.Read(body)
	for name, tt := range map[string]struct {
		time time.Duration // to write
		err  error
	}{
		"a client that reads":         {time.Minute, nil},
		"a client that does not read": {50 * time.Millisecond, os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			l := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
			defer l.Close()
			client := expect.Value(net.Dial("tcp", l.Addr().String()))(t)
			defer client.Close()
			accepted := expect.Value(l.Accept())(t)
			conn := conn.New(accepted, nil, nil, nil)
			_ = conn.SetWriteDeadline(time.Now().Add(tt.time))
			came := make(chan []byte)
			read := func() { all, _ := io.ReadAll(client); came <- all }
			if tt.err == nil {
				go read()
			}
			n, err := conn.Write(body)
			if !errors.Is(err, tt.err) || (n == len(body)) != (tt.err == nil) {
				t.Errorf("%d of %d bytes, %v", n, len(body), err)
			}
			_ = conn.Close()
			if tt.err != nil {
				go read()
			}
			if got := <-came; !bytes.Equal(got, body[:n]) {
				t.Errorf("client read %d bytes, want the %d that were written", len(got), n)
			}
		})
	}
}

// An observedConn calls a function before the descriptor is used directly.
type observedConn struct {
	*net.TCPConn
	observe func()
}

func (c observedConn) SyscallConn() (syscall.RawConn, error) {
	c.observe()
	return c.TCPConn.SyscallConn()
}

func TestConnectionIsNotIdleDuringWrite(t *testing.T) {
	t.Parallel()
	l := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	client := expect.Value(net.Dial("tcp", l.Addr().String()))(t)
	defer client.Close()
	go io.Copy(io.Discard, client) // ends with the client
	var c *conn.Conn
	observed := 0
	accepted := observedConn{expect.Value(l.Accept())(t).(*net.TCPConn), func() {
		observed++
		if _, idle := c.Idle(); idle {
			t.Error("Idle during a write = true, want false")
		}
	}}
	c = conn.New(accepted, nil, nil, nil)
	defer c.Close()
	if _, err := c.Write(make([]byte, 1<<20)); err != nil || observed == 0 {
		t.Errorf("Write = %v with %d direct uses of the descriptor, want none and at least 1", err, observed)
	}
	if _, idle := c.Idle(); !idle {
		t.Error("Idle after the write = false, want true")
	}
}
