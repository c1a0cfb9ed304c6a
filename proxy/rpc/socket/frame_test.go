package socket

import (
	"bytes"
	"net"
	"testing"

	listened "github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestFrameHeaderHasShortestForm(t *testing.T) {
	for size, want := range map[int][]byte{
		0: {0x81, 0}, 125: {0x81, 125}, 126: {0x81, 126, 0, 126}, maxFrame: {0x81, 126, 0xf0, 0},
	} {
		if got := appendHeader(nil, size); !bytes.Equal(got, want) {
			t.Errorf("header of %d bytes = %x, want %x", size, got, want)
		}
	}
}

type countedConn struct {
	net.Conn
	writes int
}

func (c *countedConn) Write(p []byte) (int, error) {
	c.writes++
	return c.Conn.Write(p)
}

func TestLongestFrameIsWrittenAtOnce(t *testing.T) {
	l := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	client := expect.Value(net.Dial("tcp", l.Addr().String()))(t)
	defer client.Close()
	server := &countedConn{Conn: expect.Value(l.Accept())(t)}
	raw := listened.New(server, nil, nil, nil)
	defer raw.Close()
	c := &conn{handler: New(Options{}), raw: raw}
	c.writeFrame(nil, make([]byte, maxFrame))
	expect.Equal(t, server.writes, 1, "writes of the longest frame")
}
