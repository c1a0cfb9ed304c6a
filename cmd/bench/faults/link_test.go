package faults

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestLinkFailsInEachWayAndRecovers(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") }))
	defer s.Close()
	r := expect.Value(rig.New(t.Context(), rig.Options{Bin: "unused"}))(t)
	defer r.Close()
	b := &bed{Rig: r, links: map[string]link{}}
	addr := b.through(nodeLink, rig.Host(s.URL))
	get := func(timeout time.Duration) error {
		conn, err := net.Dial("tcp", addr)
		expect.NoError(t, err)
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(timeout))
		_, _ = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
		_, err = io.ReadAll(conn)
		return err
	}
	l := b.links[nodeLink]
	for weather, want := range map[string]error{
		"latency": os.ErrDeadlineExceeded, "resets": syscall.ECONNRESET, "half-open": os.ErrDeadlineExceeded, "slow close": os.ErrDeadlineExceeded,
	} {
		expect.NoError(t, l.fail(weathers[weather]...))
		timeout := 90 * time.Millisecond
		if weather == "resets" {
			timeout = 10 * time.Second
		}
		expect.ErrorIs(t, get(timeout), want, "request with %s", weather)
		l.mend()
		expect.NoError(t, get(10*time.Second))
	}
}
