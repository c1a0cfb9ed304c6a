package lane_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy/lane"
)

// sockets are connections of TCP in the lane, whose kernel takes little at a time.
type sockets struct {
	*net.TCPListener
	lane *lane.Lane
}

type narrow struct{ *net.TCPConn }

func (narrow) Heard(time.Time) {}

func (s sockets) Accept() (net.Conn, error) {
	c, err := s.AcceptTCP()
	if err != nil {
		return nil, err
	}
	_ = c.SetWriteBuffer(32 << 10)
	return s.lane.NewConn(narrow{c}), nil
}

// What the kernel does not take at once of an answer comes behind it, wherever it was cut.
func TestALongAnswerComesWholeToAClientThatReadsSlowly(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	fast := newLane()
	s := startServer(t, fast)
	go s.http.Serve(sockets{l.(*net.TCPListener), fast})
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	answers := bufio.NewReader(client)
	for _, path := range []string{"/memory/a", "/memory/large", "/memory/larger"} {
		want, before := "", s.handled.Load()
		for i := range 10 {
			fmt.Fprintf(client, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n", path)
			r, err := http.ReadResponse(answers, nil)
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(r.Body)
			if err != nil || len(body) == 0 {
				t.Fatalf("%s: %d bytes, %v", path, len(body), err)
			}
			if i == 0 {
				want = string(body)
			}
			if string(body) != want {
				t.Errorf("%s: answer %d is another one, of %d bytes in place of %d", path, i, len(body), len(want))
			}
		}
		if n := s.handled.Load() - before; n == 10 {
			t.Errorf("%s: the lane has answered none of %d requests", path, n)
		}
	}
}
