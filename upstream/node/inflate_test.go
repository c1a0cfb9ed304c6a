package node

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
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

func gzipped(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	expect.NoError(t, errors.Join(err, w.Close()))
	return b.Bytes()
}

func TestGzipAnswersAreDecompressed(t *testing.T) {
	refusal := `{"code":500,"msg":null,"error":"validator does not exist"}` + "\n"
	tests := []struct {
		name, coding string
		status       int
		body         []byte
		want         string // "" for an error
	}{
		{"gzip", "gzip", 200, gzipped(t, success), success},
		{"x-gzip", "X-Gzip", 200, gzipped(t, success), success},
		{"gzip of an error", "gzip", 500, gzipped(t, refusal), refusal},
		{"identity", "identity", 200, []byte(success), success},
		{"unknown coding", "br", 200, []byte(success), ""},
		{"two codings", "gzip, gzip", 200, gzipped(t, string(gzipped(t, success))), ""},
		{"two Content-Encoding lines", "gzip\r\nContent-Encoding: br", 200, gzipped(t, success), ""},
		{"invalid gzip", "gzip", 200, []byte(success), ""},
		{"truncated gzip", "gzip", 200, gzipped(t, success)[:20], ""},
		{"gzip that inflates beyond the limit", "gzip", 200, gzipped(t, success+strings.Repeat(" ", 1<<20)), ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := restPool(t, Options{maxBody: 1 << 20}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header()["Content-Encoding"] = strings.Split(tt.coding, "\r\nContent-Encoding: ")
				w.WriteHeader(tt.status)
				_, _ = w.Write(tt.body)
			})
			for range 2 { // the second reuses the connection and the reader
				a, err := p.Fetch(within(t, time.Minute), Request{Path: "/x"})
				if tt.want == "" {
					wantKind(t, err, upstream.BadAnswer)
				} else if err != nil || string(a.Body) != tt.want {
					t.Errorf("Fetch = %+v, %v; want %q", a, err, tt.want)
				}
			}
		})
	}
}

func TestDecompressedBodyCountsInTheBudget(t *testing.T) {
	t.Parallel()
	memory := account.New(4<<20, nil)
	body := gzipped(t, success+strings.Repeat(" ", 32<<20))
	p := restPool(t, Options{Memory: memory.Upstream()}, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(body)
	})
	_, err := p.Fetch(within(t, time.Minute), Request{Path: "/x"})
	if !errors.Is(err, account.ErrFull) || memory.Used() != 0 {
		t.Errorf("error = %v with %d bytes reserved, want %v and 0", err, memory.Used(), account.ErrFull)
	}
}

// On Linux 0.0.0.0 reaches this machine, but is no loopback address.
func TestGzipIsRequestedExceptFromLoopback(t *testing.T) {
	var acceptEncoding atomic.Value
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		acceptEncoding.Store(r.Header.Get("Accept-Encoding"))
		fmt.Fprint(w, success)
	}))
	t.Cleanup(server.Close)
	_, port, _ := strings.Cut(server.Listener.Addr().String(), ":")
	for host, want := range map[string]string{"0.0.0.0": "gzip", "127.0.0.1": "", "localhost": "", "[::ffff:127.0.0.1]": ""} {
		p := newPool(t, Options{Endpoints: []Endpoint{{REST: "http://" + host + ":" + port}}})
		expect.Value(p.Fetch(within(t, time.Minute), Request{Path: "/x"}))(t)
		expect.Equal(t, acceptEncoding.Load(), any(want), "Accept-Encoding of a request to %s", host)
	}
}

// The body of an error may repeat the URL.
func TestSecretsAreHiddenInGzipRefusals(t *testing.T) {
	const secret = "hunter2-hunter2"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write(gzipped(t, fmt.Sprintf(`{"code":500,"msg":null,"error":%q}`, "no "+r.URL.Path)))
	}))
	t.Cleanup(server.Close)
	p := newPool(t, Options{Endpoints: []Endpoint{{REST: server.URL + "/" + secret}}})
	a, err := p.Fetch(within(t, time.Minute), Request{Path: "/x"})
	if err != nil || strings.Contains(string(a.Body)+a.Text, secret) {
		t.Errorf("Fetch = %+v, %v; want an answer without the key of the URL", a, err)
	}
}
