package grpc_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	google "google.golang.org/grpc"

	"github.com/tipcache/tipcache/proxy/grpc"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestGRPCWebStreamIsPassedOnUnchanged(t *testing.T) {
	t.Parallel()
	for typ, coded := range map[string]func([]byte) []byte{
		"application/grpc-web+proto":      func(b []byte) []byte { return b },
		"application/grpc-web-text+proto": func(b []byte) []byte { return base64.StdEncoding.AppendEncode(nil, b) },
	} {
		t.Run(typ, func(t *testing.T) {
			t.Parallel()
			n := newRecordedNode(t)
			d := open(t, n, true)
			path, message := recordedMessage(t, "grpc_reflection_list")
			release := n.hold(t, path)
			resp := expect.Value(http.Post(d.web.URL+path, typ, bytes.NewReader(coded(frames(message)))))(t)
			defer resp.Body.Close()
			first := coded(frames(n.byGRPC[callKey(path, message)].Messages...))
			got := make([]byte, len(first))
			if _, err := io.ReadFull(resp.Body, got); err != nil || !bytes.Equal(got, first) {
				t.Errorf("body before the end = %q, error %v; want %q", got, err, first)
			}
			release()
			rest, err := io.ReadAll(resp.Body)
			if want := coded([]byte("\x80\x00\x00\x00\x10grpc-status: 0\r\n")); err != nil || !bytes.Equal(rest, want) {
				t.Errorf("rest of the body = %q, error %v; want %q", rest, err, want)
			}
			expect.Equal(t, resp.Header.Get("Content-Type"), typ, "Content-Type")
		})
	}
}

func TestGRPCWebStreamReleasesItsBodyOnceItIsSent(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	release := make(chan struct{})
	n.setService(func(stream google.ServerStream) error {
		_ = stream.SendMsg(&[]byte{1})
		<-release
		return nil
	})
	d := open(t, n, true)
	defer close(release)
	resp := expect.Value(http.Post(d.web.URL+"/x.Y/Z", "application/grpc-web+proto", bytes.NewReader(framed(0, make([]byte, 1<<20)))))(t)
	defer resp.Body.Close()
	expect.Eventually(t, "the body is released", func() bool { return d.cache.Account().Used() < 1<<20 })
}

func TestGRPCWebClientWithoutAKeyIsRefusedBeforeItsMessage(t *testing.T) {
	t.Parallel()
	d := open(t, newRecordedNode(t), false, func(s *setup) { s.blocks.Auth = true })
	c := expect.Value((&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(d.web.URL, "http://")))(t)
	defer func() { _ = c.Close() }()
	_ = c.SetDeadline(time.Now().Add(time.Minute))
	_, _ = fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/grpc-web\r\nContent-Length: 5\r\nExpect: 100-continue\r\n\r\n", params)
	resp := expect.Value(http.ReadResponse(bufio.NewReader(c), nil))(t)
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Grpc-Status") != "16" {
		t.Errorf("response = %d %v, want 200 with Grpc-Status 16", resp.StatusCode, resp.Header)
	}
}

// A deadlineRecorder records the deadlines of a response, and the writes and flushes between them.
type deadlineRecorder struct {
	*httptest.ResponseRecorder
	events []string
}

func (r *deadlineRecorder) SetReadDeadline(at time.Time) error {
	r.events = append(r.events, fmt.Sprint("read deadline ", !at.IsZero()))
	return nil
}

func (r *deadlineRecorder) SetWriteDeadline(at time.Time) error {
	r.events = append(r.events, fmt.Sprint("write deadline ", !at.IsZero()))
	return nil
}

func (r *deadlineRecorder) Flush() { r.events = append(r.events, "flush") }

func TestOnlyTypesOfGRPCWebAreCalls(t *testing.T) {
	t.Parallel()
	for contentType, want := range map[string]bool{
		"application/grpc-web": true, "application/grpc-web+proto": true, "application/grpc-web ; charset=utf-8": true,
		"APPLICATION/gRPC-Web-Text+proto": true, "application/grpc-web-text;x=y": true,
		"": false, "application/grpc": false, "application/grpc-webfoo": false, "application/grpc-web-textual": false, "application/json; application/grpc-web": false,
	} {
		expect.Equal(t, grpc.IsWeb(contentType), want, "IsWeb(%q)", contentType)
	}
}

func TestGRPCWebStreamOutlastsTheServersTimeouts(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	n.setService(func(stream google.ServerStream) error {
		_ = stream.SendMsg(&[]byte{1})
		return stream.SendMsg(&[]byte{2})
	})
	d := open(t, n, true)
	w := &deadlineRecorder{ResponseRecorder: httptest.NewRecorder()}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/x.Y/Z", bytes.NewReader(make([]byte, 5)))
	r.Header.Set("Content-Type", "application/grpc-web+proto")
	d.handler.ServeWeb(web.NewHTTPRequest(w, r))
	expect.Contains(t, w.Body.String(), "grpc-status: 0", "body")
	want := []string{
		"read deadline false", "write deadline false",
		"write deadline true", "flush", "write deadline false", // first message
		"write deadline true", "flush", "write deadline false", // second message
		"write deadline true", // status
	}
	expect.NoDiff(t, w.events, want, "deadlines")
}
