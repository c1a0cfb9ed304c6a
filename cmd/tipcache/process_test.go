package main

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// runsProgram is the variable that makes this test binary run as tipcache in another process.
const runsProgram = "TIPCACHE_TEST_RUN"

// A program is a tipcache in another process.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	said  logtest.Log // its standard output and error
	ended chan struct{}
}

// startProgram starts tipcache with only env in its environment. It is
// killed when the test ends.
func startProgram(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	p := &program{t: t, cmd: exec.Command(os.Args[0], args...), ended: make(chan struct{})}
	p.cmd.Env = append([]string{runsProgram + "=1"}, env...)
	p.cmd.Stdout, p.cmd.Stderr = &p.said, &p.said
	expect.NoError(t, p.cmd.Start())
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	t.Cleanup(p.kill)
	return p
}

func (p *program) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// alive fails the test if the program has ended by itself.
func (p *program) alive() {
	p.t.Helper()
	select {
	case <-p.ended:
		p.t.Fatalf("tipcache has ended: %s", p.said.String())
	default:
	}
}

var adminAddress = regexp.MustCompile(`admin["=:]+([0-9.]+:\d+)`)

// admin waits until the program logs the address of its admin listener, and returns its URL.
func (p *program) admin() string {
	p.t.Helper()
	var found []string
	p.until(func() bool { found = adminAddress.FindStringSubmatch(p.said.String()); return found != nil })
	return "http://" + found[1]
}

// ask sends a GET.
func ask(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp := expect.Value(http.Get(url))(t)
	defer resp.Body.Close()
	text := expect.Value(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, string(text)
}

// sample returns the value of a metric of a program, "" if it has none.
func sample(t *testing.T, admin, name string) string {
	t.Helper()
	_, metrics := ask(t, admin+"/metrics")
	for line := range strings.Lines(metrics) {
		if value, ok := strings.CutPrefix(line, name+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
