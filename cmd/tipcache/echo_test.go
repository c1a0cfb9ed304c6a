package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tipcache/tipcache/upstream/collections/postgrestest"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// said is what an origin was sent, as it may repeat it.
func said(r *http.Request) string {
	user, password, _ := r.BasicAuth()
	return fmt.Sprintf("http://%s:%s@host%s %q", user, password, r.URL, r.Header)
}

// An echo is an origin that repeats what it was sent, each time in another way:
// as an error in one of its forms, in headers, as a redirect, and as no HTTP.
func echo(t *testing.T, status int, forms ...func(text string) (body any)) string {
	var turn atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		text, n := said(r), int(turn.Add(1))
		w.Header().Set("Content-Type", "application/json; from="+strings.ReplaceAll(text, `"`, ""))
		w.Header().Set("Grpc-Metadata-Content-Type", strings.ReplaceAll(text, `"`, ""))
		body, _ := json.Marshal(forms[n/4%len(forms)](text))
		switch n % 4 {
		case 0:
			w.Header().Set("Location", "http://127.0.0.1:1"+r.URL.String())
			w.WriteHeader(http.StatusFound)
		case 1:
			if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
				_, _ = io.WriteString(c, text+"\r\n\r\n")
				_ = c.Close()
			}
			return
		case 2:
			w.WriteHeader(http.StatusInternalServerError)
		default:
			w.WriteHeader(status)
		}
		_, _ = w.Write(body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// echoRedis is a Redis that repeats each command as an error.
func echoRedis(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	serve := func(c net.Conn) {
		defer c.Close()
		for lines := bufio.NewReader(c); ; {
			var words, size int
			if _, err := fmt.Fscanf(lines, "*%d\r\n", &words); err != nil {
				return
			}
			text := ""
			for range words {
				if _, err := fmt.Fscanf(lines, "$%d\r\n", &size); err != nil {
					return
				}
				word := make([]byte, size+2)
				if _, err := io.ReadFull(lines, word); err != nil {
					return
				}
				text += " " + strings.Map(func(c rune) rune { return max(c, ' ') }, string(word[:size]))
			}
			fmt.Fprintf(c, "-ERR not done:%s\r\n", text)
		}
	}
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			go serve(c)
		}
	}()
	return l.Addr().String()
}

func TestCredentialsEchoedByUpstreamsAreRedacted(t *testing.T) {
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "100") // milliseconds between batches
	t.Setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20"+secrets["collector header"])
	d := newDevnet(t, devnet.Options{})
	for _, dialect := range []string{"story", "cosmos"} {
		t.Run(dialect, func(t *testing.T) {
			heard := &logtest.Log{}
			t.Run("running", func(t *testing.T) { // all is closed at its end
				envelope := func(text string) any { return map[string]any{"code": 500, "msg": nil, "error": text + " not found"} }
				status := func(text string) any { return map[string]any{"code": 5, "message": text, "details": []any{}} }
				reply := func(text string) any {
					return map[string]any{"jsonrpc": "2.0", "error": map[string]any{"code": -1, "message": text, "data": text}}
				}
				key := "/" + secrets["node key"] + "/"
				file := filepath.Join(t.TempDir(), "settings.yaml")
				settings := fmt.Sprintf(`
listen: 127.0.0.1:0
admin: 127.0.0.1:0
admin_token: %q
chain: {id: devnet-1, dialect: %s, shape: node, nodes: [%q], comet: [%q], timeout: 400ms}
redis: {url: %q}
collections: {store: %q, auth: none}
log: {level: debug}
tracing: {endpoint: %q, ratio: 1}
`, secrets["admin token"], dialect, with(t, echo(t, http.StatusNotFound, envelope, status)+key, secrets["node password"]), with(t, echo(t, http.StatusOK, reply)+key, secrets["comet password"]),
					with(t, "redis://"+echoRedis(t), secrets["redis password"]),
					with(t, "postgres://"+postgrestest.Echo(t)+"/db?sslmode=disable", secrets["store password"]), with(t, echo(t, http.StatusBadRequest, envelope), secrets["collector password"])+"/"+secrets["collector path"])
				must(t, os.WriteFile(file, []byte(settings), 0o600))
				r := serveFile(t, d, file, heard)
				r.eventually("a login and a statement refused", func() bool {
					fmt.Fprintln(heard, r.list("{}"))
					return strings.Contains(heard.String(), "SQLSTATE 28P01") && strings.Contains(heard.String(), "SQLSTATE XX000")
				})
				bearer := []string{"Authorization", "Bearer " + secrets["admin token"]}
				for i := range 16 {
					for _, path := range []string{"/staking/pool", "/cosmos/staking/v1beta1/pool", "/cosmos/base/tendermint/v1beta1/node_info"} {
						got := r.get(fmt.Sprintf("%s%s?x=%d", r.base, path, i), "X-Block-Height", fmt.Sprint(1+i), "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
						fmt.Fprintln(heard, got.status, got.header, got.body)
					}
				}
				for _, path := range []string{"/readyz", "/metrics", "/", "/admin/explain?url=/staking/pool", "/admin/explain?url=/cosmos/staking/v1beta1/pool"} {
					got := r.get(r.admin+path, bearer...)
					fmt.Fprintln(heard, got.status, got.header, got.body)
				}
				r.eventually("spans refused", func() bool { return strings.Contains(heard.String(), "trace spans not sent") })
				r.eventually("Redis refused", func() bool { return strings.Contains(heard.String(), "redis request failed") })
			})
			mustNotTell(t, heard.String())
			for _, hidden := range []string{"not done: auth *** ***", "Authorization:[Basic ***]", "from=http://***", "trace spans not sent", "wrong: ***", "not done: ***"} {
				if !strings.Contains(heard.String(), hidden) {
					t.Errorf("no report of %s", hidden)
				}
			}
		})
	}
}

func TestCheckRedactsCredentialsEchoedByUpstreams(t *testing.T) {
	heard := &logtest.Log{}
	refusal := func(text string) any {
		return map[string]any{"jsonrpc": "2.0", "error": map[string]any{"code": -1, "message": text}}
	}
	args := []string{
		"check", "--connect", "--listen", "127.0.0.1:0", "--admin", "none", "--node", "none", "--collections-auth", "none", "--index", "--network", "aeneid",
		"--store", with(t, "postgres://"+postgrestest.Echo(t)+"/db?sslmode=disable", secrets["store password"]),
		"--evm", with(t, echo(t, http.StatusOK, refusal)+"/"+secrets["node key"], secrets["execution password"]),
	}
	for range 4 { // the origins take turns
		if err := run(t.Context(), args, streams{heard, heard}); err == nil {
			t.Error("no part is degraded, want one")
		}
	}
	mustNotTell(t, heard.String())
	for _, hidden := range []string{"wrong: ***", "not done: ***", "malformed HTTP status code", "it answered error -1: http"} {
		if !strings.Contains(heard.String(), hidden) {
			t.Errorf("nothing was heard of %s in:\n%s", hidden, heard)
		}
	}
}
