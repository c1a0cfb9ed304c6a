package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
)

const success = `{"code":200,"msg":{},"error":""}` + "\n"

// restPool returns a pool of one REST server without CometBFT.
func restPool(t *testing.T, o Options, handler http.HandlerFunc) *Pool {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	o.Endpoints = []Endpoint{{REST: server.URL}}
	return newPool(t, o)
}

// hijack returns the connection of a response.
func hijack(w http.ResponseWriter) *net.TCPConn {
	conn, _, _ := w.(http.Hijacker).Hijack()
	return conn.(*net.TCPConn)
}

func TestFailedRequestsReturnTheirErrorKind(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		answer http.HandlerFunc
		want   upstream.Kind
	}{
		{"the connection is closed without an answer", func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}, upstream.Unreachable},
		{"the connection is reset", func(w http.ResponseWriter, _ *http.Request) {
			conn := hijack(w)
			_ = conn.SetLinger(0)
			_ = conn.Close()
		}, upstream.Unreachable},
		{"no answer comes", func(_ http.ResponseWriter, r *http.Request) {
			<-r.Context().Done()
		}, upstream.Timeout},
		{"the body stalls", func(w http.ResponseWriter, r *http.Request) {
			_, _ = w.Write([]byte(success[:10]))
			_ = http.NewResponseController(w).Flush()
			<-r.Context().Done()
		}, upstream.Timeout},
		{"the body is cut off", func(w http.ResponseWriter, _ *http.Request) {
			conn := hijack(w)
			fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n%s", success)
			_ = conn.Close()
		}, upstream.BadAnswer},
		{"the body is larger than allowed", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"code":200,"msg":%q,"error":""}`, strings.Repeat("x", 2000))
		}, upstream.BadAnswer},
		{"the body is not JSON", func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprint(w, "<html>welcome</html>")
		}, upstream.BadAnswer},
		{"a redirect is not followed", func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "/elsewhere", http.StatusMovedPermanently)
		}, upstream.BadAnswer},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			timeout := time.Minute
			if tt.want == upstream.Timeout {
				timeout = 200 * time.Millisecond
			}
			p := restPool(t, Options{Settings: Settings{Timeout: timeout}, maxBody: 1000}, tt.answer)
			_, err := p.Fetch(t.Context(), Request{Path: "/staking/params"}) // without a deadline: only Timeout ends it
			wantKind(t, err, tt.want)
		})
	}
}

func TestRefusedConnectionIsUnreachable(t *testing.T) {
	const address = "127.0.0.1:1"
	p := newPool(t, Options{Endpoints: []Endpoint{{REST: "http://user:secret@" + address + "/key"}}})
	_, err := p.Fetch(within(t, time.Minute), Request{Path: "/x"})
	got := wantKind(t, err, upstream.Unreachable)
	if strings.Contains(got.Error(), "secret") || strings.Contains(got.Error(), "key") || strings.Contains(got.Msg, address) {
		t.Errorf("error = %v, want it without the credentials, key and address", got)
	}
	if h := p.Health()[0]; h.Name != address || !strings.Contains(h.LastError, "refused") || strings.Contains(h.LastError, "secret") {
		t.Errorf("health = %+v, want name %s and the error refused without the secret", h, address)
	}
}

func TestBodyOfExactlyTheLimitIsAccepted(t *testing.T) {
	p := restPool(t, Options{maxBody: int64(len(success))}, func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, success)
	})
	expect.Value(p.Fetch(within(t, time.Minute), Request{Path: "/x"}))(t)
}

func TestAnswerBeyondFreeMemoryIsOverload(t *testing.T) {
	memory := account.New(4<<20, nil)
	endless := func(w http.ResponseWriter, _ *http.Request) {
		for _, err := w.Write([]byte(success)); err == nil; {
			_, err = w.Write(make([]byte, 64<<10))
		}
	}
	server := httptest.NewServer(http.HandlerFunc(endless))
	t.Cleanup(server.Close)
	p := newPool(t, Options{Endpoints: []Endpoint{{REST: server.URL, Comet: server.URL}}, Memory: memory.Upstream()})
	e := p.endpoints()[0]
	for name, r := range map[string]Request{"REST": {Path: "/x"}, "RPC": {Call: &Call{Method: "x", Params: func(int64) json.RawMessage { return nil }}}, "RPC with long parameters": {Call: &Call{Method: "x", Size: 2 << 20}}} {
		_, err := e.send(within(t, time.Minute), r, 0)
		if upstream.KindOf(err) != upstream.Overloaded || !errors.Is(err, account.ErrFull) {
			t.Errorf("endless response over %s: error = %v, want %v", name, err, account.ErrFull)
		}
		if e.serverOf(r).isOpen() || memory.Used() != 0 {
			t.Errorf("endless response over %s: breaker open = %v, %d bytes reserved; want false, 0", name, e.serverOf(r).isOpen(), memory.Used())
		}
	}
	expect.Equal(t, p.Health()[0].LastError, "", "last error of the node")
}

func TestRequestPathQueryAndHeaders(t *testing.T) {
	var got atomic.Pointer[http.Request]
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got.Store(r)
		fmt.Fprint(w, success)
	}))
	t.Cleanup(server.Close)
	p := newPool(t, Options{Endpoints: []Endpoint{{REST: "http://me:secret@" + server.Listener.Addr().String() + "/node/"}}})
	answer, err := p.Fetch(within(t, time.Minute), Request{
		Path: "/upgrade/applied_plan/a b?c", Query: "pagination.limit=5&pagination.key=%14%BB", Height: 7,
	})
	expect.NoError(t, err)
	r := got.Load()
	user, password, _ := r.BasicAuth()
	want := []string{"GET", "/node/upgrade/applied_plan/a%20b%3Fc?pagination.limit=5&pagination.key=%14%BB", "7", "", "me", "secret"}
	seen := []string{r.Method, r.RequestURI, r.Header.Get("X-Block-Height"), r.Header.Get("Accept-Encoding"), user, password}
	expect.NoDiff(t, seen, want, "request")
	expect.Equal(t, answer.Height, 7, "height")
}

func TestReadOfLatestSendsNoHeight(t *testing.T) {
	t.Parallel()
	p := restPool(t, Options{}, func(w http.ResponseWriter, r *http.Request) {
		if _, sent := r.Header["X-Block-Height"]; sent {
			t.Error("request has a height header, want none")
		}
		fmt.Fprint(w, success)
	})
	for _, height := range []int64{0, AtTip} { // the tip is unknown
		answer, err := p.Fetch(within(t, time.Minute), Request{Path: "/x", Height: height})
		if err != nil || answer.Height != 0 {
			t.Errorf("Fetch at %d = %+v, %v; want height 0", height, answer, err)
		}
	}
}

func TestClosedIdleConnectionCausesNoFailure(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, success)
	}))
	server.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		if state == http.StateIdle {
			_ = conn.Close()
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	p := newPool(t, Options{Endpoints: []Endpoint{{REST: server.URL}}})
	for range 50 {
		expect.Value(p.Fetch(within(t, time.Minute), Request{Path: "/x"}))(t)
	}
}

func TestCanceledRequestIsNotANodeFailure(t *testing.T) {
	arrived := make(chan struct{}, 10)
	p := restPool(t, Options{}, func(_ http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-r.Context().Done()
	})
	for range 2 * maxFailures {
		ctx, cancel := context.WithCancel(context.Background())
		go func() { <-arrived; cancel() }()
		if _, err := p.Fetch(ctx, Request{Path: "/x"}); !errors.Is(err, context.Canceled) {
			t.Fatalf("Fetch = %v, want %v", err, context.Canceled)
		}
	}
	_, err := p.Fetch(within(t, 20*time.Millisecond), Request{Path: "/x"})
	wantKind(t, err, upstream.Timeout)
	if h := p.Health()[0]; h.Breaker != "closed" || h.LastError != "" {
		t.Errorf("health = %+v, want a closed breaker and no error", h)
	}
}

// A server or its proxy may echo the request.
func TestStatusHidesCredentials(t *testing.T) {
	const secret = "hunter2-hunter2"
	for name, answer := range map[string]func(w http.ResponseWriter, echo string){
		"in the chain id": func(w http.ResponseWriter, echo string) {
			fmt.Fprintf(w, `{"result":{"node_info":{"network":%q,"other":{"tx_index":%[1]q}},"sync_info":{"latest_block_height":"7"}}}`, echo)
		},
		"in an error": func(w http.ResponseWriter, echo string) {
			fmt.Fprintf(w, `{"error":{"message":%q,"data":%[1]q}}`, echo)
		},
		"in text": func(w http.ResponseWriter, echo string) { fmt.Fprint(w, echo) },
		"in the status line": func(w http.ResponseWriter, echo string) {
			c := hijack(w)
			fmt.Fprintf(c, "%s\r\n\r\n", echo)
			_ = c.Close()
		},
		"in a redirect": func(w http.ResponseWriter, echo string) {
			w.Header().Set("Location", "http://127.0.0.1:1/"+echo)
			w.WriteHeader(http.StatusFound)
		},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			user, password, _ := r.BasicAuth()
			answer(w, r.URL.Path+" "+user+":"+password)
		}))
		p := newPool(t, Options{Endpoints: []Endpoint{{REST: server.URL, Comet: strings.Replace(server.URL, "://", "://user:"+secret+"@", 1) + "/" + secret + "/"}}})
		s, err := p.CometBFT()[0].Status(t.Context())
		server.Close()
		if got := fmt.Sprint(s, err); strings.Contains(got, secret) || !strings.Contains(got, "***") && name != "in text" && name != "in a redirect" {
			t.Errorf("Status with the secret %s = %s, want *** in its place", name, got)
		}
	}
}
