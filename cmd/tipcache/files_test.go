package main

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/porttest"
)

// Without files, tipcache can connect to no node, and no new client makes it close an idle connection.
func TestIdleConnectionsLeaveFilesForTheRest(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	p := startCommand(t, nil, exec.Command("/bin/sh", "-c", `ulimit -n 128; exec "$0" "$@"`, os.Args[0], "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--node", d.NodeURL(), "--comet", d.CometURL()))
	admin := p.admin()
	address := p.address(`"listen`)
	for n := range 150 {
		c := expect.Value(net.Dial("tcp", address))(t)
		defer c.Close()
		expect.NoError(t, c.SetDeadline(time.Now().Add(time.Minute)))
		expect.Value(io.WriteString(c, "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"))(t)
		if _, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil {
			t.Fatalf("request on connection %d while the others are idle: %v; output: %s", n, err, p.output.String())
		}
	}
	status, body := fetch(t, admin+"/readyz")
	expect.Response(t, "/readyz", status, body, http.StatusOK)
}

// A program that receives the log may end, or be replaced.
func TestServeContinuesWithoutReaderOfItsLog(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	for _, args := range [][]string{
		{"serve", "--node", d.NodeURL(), "--comet", d.CometURL(), "--listen", "127.0.0.1:0"},
		indexArgs(d, sqliteURL(t), "--follow"),
	} {
		reader, writer, err := os.Pipe()
		expect.NoError(t, err)
		expect.NoError(t, reader.Close())
		defer writer.Close()
		admin := porttest.Address(t)
		cmd := exec.Command(os.Args[0], append(args, "--admin", admin)...)
		cmd.Stderr = writer
		p := startCommand(t, nil, cmd)
		p.waitFor("readiness", func() bool {
			resp, err := http.Get("http://" + admin + "/readyz")
			if err == nil {
				_ = resp.Body.Close()
			}
			return err == nil && resp.StatusCode == http.StatusOK
		})
		p.interrupt()
		expect.Equal(t, p.cmd.ProcessState.ExitCode(), 0, "exit status")
	}
}
