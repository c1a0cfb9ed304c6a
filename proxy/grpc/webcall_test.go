package grpc_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
)

// callWeb makes a call by gRPC-Web, and returns the headers and the body of the response.
func (d *servers) callWeb(t *testing.T, typ, path string, body []byte, headers ...string) (http.Header, string) {
	t.Helper()
	r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodPost, d.web.URL+path, bytes.NewReader(body)))(t)
	r.Header.Set("Content-Type", typ)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp := expect.Value(http.DefaultClient.Do(r))(t)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("response = %d %s, error %v; want 200", resp.StatusCode, text, err)
	}
	return resp.Header, string(text)
}

func TestGRPCWebBodyCountsAgainstTheKey(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	d := open(t, n, true, func(s *setup) {
		s.blocks.Auth = true
		s.web.Keys = []limits.Key{{Name: "one", SHA256: sha256.Sum256([]byte("secret"))}}
	})
	call := func() string {
		body := make([]byte, 10<<20) // an empty message, with bytes after it
		h, _ := d.callWeb(t, "application/grpc-web+proto", params, body, "X-Cosmos-Block-Height", "14", "X-Api-Key", "secret")
		return h.Get("Grpc-Status")
	}
	release := n.hold(t, params)
	ended := make(chan string)
	go func() { ended <- call() }()
	expect.EventuallyEqual(t, "the node gets the request", func() int { return n.requests("gRPC " + params) }, 1)
	expect.Equal(t, call(), "8", "status of a body above the share of its key")
	release()
	expect.Equal(t, <-ended, "", "status of a body within that share")
}

func TestGRPCWebTimeoutIsParsed(t *testing.T) {
	t.Parallel()
	const ended = "\x80\x00\x00\x00\x10grpc-status: 0\r\n"
	d := open(t, newRecordedNode(t), true)
	for given, want := range map[string]string{
		"": "", "1H": "", "5M": "", "90S": "", "99999999H": "", "99999999m": "", "99999999u": "",
		"100000000m": "13", "1": "13", "S": "13", "1s": "13", "-1S": "13", "1.5S": "13",
	} {
		t.Run(given, func(t *testing.T) {
			t.Parallel()
			h, body := d.callWeb(t, "application/grpc-web+proto", params, make([]byte, 5), "X-Cosmos-Block-Height", "14", "Grpc-Timeout", given)
			if got := h.Get("Grpc-Status"); got != want || (want == "") != strings.HasSuffix(body, ended) {
				t.Errorf("status = %q with body %q, want %q", got, body, want)
			}
		})
	}
}

func TestGRPCWebCallEndsAfterItsTimeout(t *testing.T) {
	t.Parallel()
	d := open(t, newRecordedNode(t), true)
	h, _ := d.callWeb(t, "application/grpc-web+proto", params, make([]byte, 5), "X-Min-Block-Height", "747", "Grpc-Timeout", "50m")
	expect.Equal(t, h.Get("Grpc-Status"), "4", "status of a call that waits for the next block")
}

func TestMalformedGRPCWebMessagesAreRefused(t *testing.T) {
	t.Parallel()
	const binary, text = "application/grpc-web+proto", "application/grpc-web-text+proto"
	frame := make([]byte, 5)
	for name, tt := range map[string]struct {
		typ  string
		body string
		want string // status; "" means a message
	}{
		"an empty message":               {binary, string(frame), ""},
		"an empty message in base64":     {text, base64.StdEncoding.EncodeToString(frame), ""},
		"base64 in pieces":               {text, base64.StdEncoding.EncodeToString(frame[:1]) + base64.StdEncoding.EncodeToString(frame[1:]), ""},
		"base64 with a parameter":        {text + "; charset=utf-8", base64.StdEncoding.EncodeToString(frame), ""},
		"no base64":                      {text, "\x00\x00\x00\x00\x00", "13"},
		"part of a frame's head":         {binary, "\x00\x00\x00", "13"},
		"a truncated message":            {binary, "\x00\x00\x00\x00\x02a", "13"},
		"a compressed message":           {binary, "\x01\x00\x00\x00\x00", "13"},
		"a frame with an unknown flag":   {binary, "\x02\x00\x00\x00\x00", "13"},
		"a frame with trailers":          {binary, "\x80\x00\x00\x00\x05a: b\n", "13"},
		"a length above the limit":       {binary, "\x00\xff\xff\xff\xff", "13"},
		"an invalid protobuf message":    {binary, "\x00\x00\x00\x00\x01\xff", "12"}, // from the node, which has no recording of it
		"a body above the limit":         {binary, string(make([]byte, 15<<20)), "8"},
		"a message above the limit":      {binary, "\x00\x00\xb0\x00\x00" + string(make([]byte, 11<<20+1<<19)), "8"},
		"no message":                     {binary, "", "2"}, // like the node
		"trailing bytes after a message": {binary, string(frame) + "\x00", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := open(t, newRecordedNode(t), true)
			h, body := d.callWeb(t, tt.typ, params, []byte(tt.body), "X-Cosmos-Block-Height", "14")
			if got := h.Get("Grpc-Status"); got != tt.want || (tt.want == "") != (len(body) > 5) {
				t.Errorf("status = %q (%s) with a body of %d bytes, want %q", got, h.Get("Grpc-Message"), len(body), tt.want)
			}
			if got := h.Get("Content-Type"); got != tt.typ || h.Get("Cache-Control") != "no-store" {
				t.Errorf("Content-Type = %q, Cache-Control = %q; want %q, no-store", got, h.Get("Cache-Control"), tt.typ)
			}
		})
	}
}

func TestGRPCWebTextIsDecodedInPlace(t *testing.T) {
	d := open(t, newRecordedNode(t), true)
	allocated := func(typ string, body []byte) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if h, _ := d.callWeb(t, typ, params, body); h.Get("Grpc-Status") != "13" {
			t.Errorf("status of a truncated message = %q, want 13", h.Get("Grpc-Status"))
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	text := bytes.Repeat([]byte(base64.StdEncoding.EncodeToString([]byte{0, 0, 0xff, 0xff, 0xff, 1, 2})), 1<<18) // pieces of 12 bytes
	plain := allocated("application/grpc-web+proto", append([]byte{0, 0, 0xff, 0xff, 0xff}, text...))
	if got := allocated("application/grpc-web-text+proto", text); got > plain+1<<20 {
		t.Errorf("call with %d bytes of text allocates %d bytes, want about %d, as without base64", len(text), got, plain)
	}
}

func TestGRPCWebStatusWithoutMessageIsInHeaders(t *testing.T) {
	t.Parallel()
	d := open(t, newRecordedNode(t), true)
	path, message := recordedMessage(t, "grpc_account_unknown")
	h, body := d.callWeb(t, "application/grpc-web+proto", path, frames(message), "X-Cosmos-Block-Height", "14", "Origin", "https://app.example")
	if h.Get("Grpc-Status") != "5" || !strings.HasPrefix(h.Get("Grpc-Message"), "account ") || body != "" {
		t.Errorf("status = %q (%s) with body %q, want 5 for an unknown account without body", h.Get("Grpc-Status"), h.Get("Grpc-Message"), body)
	}
	expect.Equal(t, h.Get("X-Cosmos-Block-Height"), "14", "X-Cosmos-Block-Height")
}

func TestPagesMayReadTheHeadersOfGRPCWeb(t *testing.T) {
	t.Parallel()
	d := open(t, newRecordedNode(t), true)
	unknown, message := recordedMessage(t, "grpc_account_unknown")
	for path, call := range map[string]struct {
		message []byte
		names   []string
	}{
		params:  {make([]byte, 5), []string{"x-cosmos-block-height", "x-block-height"}},
		unknown: {frames(message), []string{"x-cosmos-block-height", "grpc-status", "grpc-message"}},
	} {
		h, _ := d.callWeb(t, "application/grpc-web+proto", path, call.message, "X-Cosmos-Block-Height", "14", "Origin", "https://app.example")
		exposed := strings.ToLower(strings.Join(h.Values("Access-Control-Expose-Headers"), ", "))
		for _, name := range call.names {
			expect.Contains(t, exposed, name, "%s: exposed headers", path)
		}
		expect.Equal(t, h.Get("Access-Control-Allow-Origin"), "*", "%s: allowed origin", path)
	}
}

func TestOpenGRPCWebStreamEndsAfterItsTimeout(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	d := open(t, n, true)
	path, message := recordedMessage(t, "grpc_reflection_list")
	n.hold(t, path)
	for timeout := 100; ; timeout *= 4 {
		began := time.Now()
		h, body := d.callWeb(t, "application/grpc-web+proto", path, frames(message), "Grpc-Timeout", fmt.Sprint(timeout, "m"))
		if h.Get("Grpc-Status") == "4" && timeout < 60_000 {
			continue // a busy machine has not opened the stream in time
		}
		if passed := time.Since(began); !strings.Contains(body, "grpc-status: 4") || passed < time.Duration(timeout)*time.Millisecond {
			t.Errorf("body = %q after %s, want grpc-status 4 after %dms", body, passed, timeout)
		}
		return
	}
}

// A read that outlasts its client retains the query. What follows a message in its body would not be counted.
func TestQueryRetainsOnlyItsMessage(t *testing.T) {
	n := newRecordedNode(t)
	n.hold(t, params)
	d := open(t, n, true)
	before := expect.LiveHeap()
	h, _ := d.callWeb(t, "application/grpc-web+proto", params, make([]byte, 10<<20), "X-Cosmos-Block-Height", "14", "Grpc-Timeout", "200m")
	expect.Equal(t, h.Get("Grpc-Status"), "4", "status")
	if retained := expect.LiveHeap() - before; retained > 5<<20 {
		t.Errorf("memory retained during the read = %d bytes, want at most 5 MiB", retained)
	}
}

// The first stream of an HTTP/2 connection needs no memory of its own, all others do.
func TestGRPCWebCallWithoutMemoryForItsStreamIsRefused(t *testing.T) {
	t.Parallel()
	d := open(t, newRecordedNode(t), true)
	ours, theirs := net.Pipe()
	defer func() { _, _ = ours.Close(), theirs.Close() }()
	memory := d.cache.Account()
	c := conn.New(ours, nil, memory, nil)
	ctx := conn.Context(t.Context(), c)
	call := func() http.Header {
		r, w := httptest.NewRequestWithContext(ctx, http.MethodPost, params, bytes.NewReader(make([]byte, 5))), httptest.NewRecorder()
		r.ProtoMajor = 2
		r.Header.Set("Content-Type", "application/grpc-web+proto")
		r.Header.Set("X-Cosmos-Block-Height", "14")
		d.web.Config.Handler.ServeHTTP(w, r)
		return w.Header()
	}
	first := httptest.NewRequestWithContext(ctx, http.MethodGet, "/", nil)
	c.ServeStream(httptest.NewRecorder(), first, func(http.ResponseWriter) bool { return false }, func(http.ResponseWriter, bool) {
		expect.Equal(t, call().Get("Grpc-Status"), "", "status of a call with memory")
		for memory.Reserve(account.Streams, 1<<10) {
			defer memory.Release(account.Streams, 1<<10)
		}
		h := call()
		expect.Equal(t, h.Get("Grpc-Status"), "8", "status of a call without memory")
		expect.Contains(t, h.Get("Grpc-Message"), "too little memory is free", "message of a call without memory")
	})
}
