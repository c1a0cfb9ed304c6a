package main

import (
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"regexp"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// runsProgram is the variable that makes this test binary run as tipcache in another process.
const runsProgram = "TIPCACHE_TEST_RUN"

// A program is a tipcache in another process.
type program struct {
	t      *testing.T
	cmd    *exec.Cmd
	output logtest.Log   // standard output and error
	ended  chan struct{} // closed once the process has ended
}

// startProgram starts tipcache with only env in its environment, and kills it when the test ends.
func startProgram(t *testing.T, env []string, args ...string) *program {
	t.Helper()
	return startCommand(t, env, exec.Command(os.Args[0], args...))
}

// startCommand is startProgram for a command that runs this test binary, and that may have a standard error of its own.
func startCommand(t *testing.T, env []string, cmd *exec.Cmd) *program {
	t.Helper()
	p := &program{t: t, cmd: cmd, ended: make(chan struct{})}
	p.cmd.Env = append([]string{runsProgram + "=1"}, env...)
	p.cmd.Stdout = &p.output
	if p.cmd.Stderr == nil {
		p.cmd.Stderr = &p.output
	}
	expect.NoError(t, p.cmd.Start())
	go func() { _ = p.cmd.Wait(); close(p.ended) }()
	t.Cleanup(p.kill)
	return p
}

func (p *program) kill() {
	_ = p.cmd.Process.Kill() // it may have ended
	<-p.ended
}

// expectRunning stops the test if the program has ended by itself.
func (p *program) expectRunning() {
	p.t.Helper()
	select {
	case <-p.ended:
		p.t.Fatalf("tipcache has ended: %s", p.output.String())
	default:
	}
}

// waitFor waits until ok returns true, for at most a minute. The program must not end meanwhile.
func (p *program) waitFor(what string, ok func() bool) {
	p.t.Helper()
	for start := time.Now(); !ok(); time.Sleep(time.Millisecond) {
		p.expectRunning()
		if time.Since(start) > time.Minute {
			p.t.Fatalf("not within a minute: %s; output: %s", what, p.output.String())
		}
	}
}

// interrupt sends SIGINT and waits until the program has ended.
func (p *program) interrupt() {
	p.t.Helper()
	expect.NoError(p.t, p.cmd.Process.Signal(os.Interrupt))
	p.waitForEnd()
}

// waitForEnd waits until the program has ended, for at most a minute.
func (p *program) waitForEnd() {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-time.After(time.Minute):
		p.t.Fatalf("process still running after a minute; output: %s", p.output.String())
	}
}

// admin waits until the program logs the address of its admin listener, and returns its URL.
func (p *program) admin() string {
	p.t.Helper()
	return "http://" + p.address("admin")
}

// address waits until the program logs the address of a listener, and returns it.
func (p *program) address(listener string) string {
	p.t.Helper()
	address := regexp.MustCompile(listener + `["=:]+([0-9.]+:\d+)`)
	var found []string
	p.waitFor("address "+listener+" in the log", func() bool { found = address.FindStringSubmatch(p.output.String()); return found != nil })
	return found[1]
}

// fetch sends a GET request.
func fetch(t *testing.T, url string) (status int, body string) {
	t.Helper()
	resp := expect.Value(http.Get(url))(t)
	defer resp.Body.Close()
	text := expect.Value(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, string(text)
}

// relay starts a proxy for target. handle responds to each request, or calls next, which forwards it.
func relay(t *testing.T, target string, handle func(next http.Handler, w http.ResponseWriter, r *http.Request)) *httptest.Server {
	t.Helper()
	to := expect.Value(url.Parse(target))(t)
	next := httputil.NewSingleHostReverseProxy(to)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { handle(next, w, r) }))
	t.Cleanup(s.Close)
	return s
}

// rewriting starts a proxy for target that changes the bodies of its responses.
func rewriting(t *testing.T, target string, change func(path string, body []byte) []byte) (address string) {
	t.Helper()
	return relay(t, target, func(next http.Handler, w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			next.ServeHTTP(w, r)
			return
		}
		recorder := httptest.NewRecorder()
		next.ServeHTTP(recorder, r)
		maps.Copy(w.Header(), recorder.Header())
		w.Header().Del("Content-Length")
		w.WriteHeader(recorder.Code)
		_, _ = w.Write(change(r.URL.Path, recorder.Body.Bytes()))
	}).URL
}
