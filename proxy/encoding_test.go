package proxy_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/web"
)

// longPath is a path whose answer is worth compressing.
const longPath = "/staking/validators"

// startPlainChain is startChain for a client that decodes nothing by itself.
func startPlainChain(t *testing.T, o proxy.Options) *chainService {
	t.Helper()
	s := startChain(t, o)
	s.Client().Transport.(*http.Transport).DisableCompression = true
	return s
}

// decode undoes a content coding.
func decode(t testing.TB, coding, body string) string {
	t.Helper()
	var from io.Reader = strings.NewReader(body)
	switch coding {
	case "":
		return body
	case "gzip":
		r, err := gzip.NewReader(from)
		if err != nil {
			t.Fatal(err)
		}
		r.Multistream(false) // browsers read the first member only
		from = r
	case "zstd":
		r, err := zstd.NewReader(from)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		from = r
	case "br":
		from = brotli.NewReader(from)
	default:
		t.Fatalf("nobody asked for %q", coding)
	}
	plain, err := io.ReadAll(from)
	if err != nil {
		t.Fatalf("%s: %v", coding, err)
	}
	return string(plain)
}

func TestAcceptEncoding(t *testing.T) {
	s := startPlainChain(t, proxy.Options{})
	plain := s.get(t, longPath)
	plain.has(t, "Content-Encoding", "")
	tests := []struct{ name, sent, want string }{
		{"nothing", "", ""},
		{"gzip", "gzip", "gzip"},
		{"gzip by its old name", "x-gzip", "gzip"},
		{"br", "br", "br"},
		{"zstd", "zstd", "zstd"},
		{"upper case", "GZIP", "gzip"},
		{"what browsers send", "gzip, deflate, br, zstd", "zstd"},
		{"what other browsers send", "gzip, deflate, br", "br"},
		{"what older browsers send", "gzip, deflate", "gzip"},
		{"all but br", "gzip,zstd", "zstd"},
		{"what is not served", "deflate, compress", ""},
		{"anything", "*", "zstd"},
		{"anything but zstd", "zstd;q=0, *", "br"},
		{"anything, but rather gzip", "*;q=0.5, gzip;q=0.9", "gzip"},
		{"nothing at all", "*;q=0", ""},
		{"a preference for gzip", "br;q=0.8, gzip;q=1.0", "gzip"},
		{"a slight preference", "br;q=0.998, gzip;q=0.999", "gzip"},
		{"a refusal", "gzip;q=0", ""},
		{"a refusal in three decimals", "gzip;q=0.000", ""},
		{"little liking", "gzip;q=0.001", "gzip"},
		{"the plain body", "identity", ""},
		{"rather the plain body", "gzip;q=0.5, identity", ""},
		{"either", "gzip;q=0.5, identity;q=0.5", "gzip"},
		{"not the plain body", "identity;q=0, gzip;q=0.1", "gzip"},
		{"anything but the plain body", "identity;q=0, *;q=0.1", "zstd"},
		{"a refusal of all there is", "identity;q=0", ""},
		{"spaces", " gzip ; q=0.5 ,\tbr ;q=0.4", "gzip"},
		{"a capital Q", "gzip;Q=0", ""},
		{"empty members", ",, gzip ,", "gzip"},
		{"the last word", "gzip;q=0, gzip", "gzip"},
		{"a weight above 1", "gzip;q=1.001, br;q=0.1", "br"},
		{"a weight of 2", "gzip;q=2", ""},
		{"a weight too exact", "gzip;q=0.1234", ""},
		{"a weight of nothing", "gzip;q=", ""},
		{"a weight that is a word", "gzip;q=0.x", ""},
		{"a weight without its dot", "gzip;q=05", ""},
		{"another parameter", "gzip;level=9", ""},
		{"words", "give me gzip", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := s.get(t, longPath, "Accept-Encoding", tt.sent)
			got.has(t, "Content-Encoding", tt.want)
			got.has(t, "Vary", "X-Block-Height, X-Min-Block-Height, X-Min-Evm-Block, Accept, Accept-Encoding, X-Session")
			got.has(t, "Content-Length", strconv.Itoa(len(got.body)))
			got.has(t, "Etag", tagIn(plain.header.Get("Etag"), tt.want))
			if diff := cmp.Diff(plain.body, decode(t, tt.want, got.body)); diff != "" {
				t.Errorf("decoded (-want +got):\n%s", diff)
			}
			head := s.do(t, http.MethodHead, longPath, "", "Accept-Encoding", tt.sent)
			for _, name := range []string{"Content-Encoding", "Content-Length", "Etag", "Vary"} {
				head.has(t, name, got.header.Get(name))
			}
		})
	}
}

// tagIn is the validator of a coding, made of the plain one.
func tagIn(plain, coding string) string {
	if coding == "" {
		return plain
	}
	return strings.TrimSuffix(plain, `"`) + "-" + coding + `"`
}

func TestSeveralLinesOfAcceptEncodingAreOne(t *testing.T) {
	h, _ := newChainProxy(t, proxy.Options{})
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, longPath, nil)
	r.Header["Accept-Encoding"] = []string{"gzip;q=0.1", "br"}
	for range 2 {
		h.ServeHTTP(w, r)
	}
	if got := w.Header().Get("Content-Encoding"); got != "br" {
		t.Errorf("Content-Encoding %q", got)
	}
}

func TestWhatIsNotWorthEncodingStaysPlain(t *testing.T) {
	s := startPlainChain(t, proxy.Options{})
	tests := []struct{ name, target, sent, want string }{
		{"a body smaller than a packet", anyPath, "br, gzip", ""},
		{"which a client cannot take as it is", anyPath, "identity;q=0, gzip", "gzip"},
		{"an answer that says no", "/staking/validators/" + nobody, "identity;q=0, gzip", ""},
		{"a refusal", "/nowhere", "gzip", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := s.get(t, tt.target, "Accept-Encoding", tt.sent)
			got.has(t, "Content-Encoding", tt.want)
			if body := decode(t, tt.want, got.body); !strings.HasPrefix(body, `{"code":`) {
				t.Errorf("body %q", body)
			}
		})
	}
}

func TestLargeBodiesPreferSpeed(t *testing.T) {
	s := startPlainChain(t, proxy.Options{})
	s.chain.says(200, `{"code":200,"msg":{"text":"`+strings.Repeat("0123456789", 120_000)+`"},"error":""}`)
	s.get(t, anyPath)
	for sent, want := range map[string]string{"gzip, br, zstd": "zstd", "gzip, br": "gzip", "br": "br", "br, zstd;q=0.5": "br"} {
		s.get(t, anyPath, "Accept-Encoding", sent).has(t, "Content-Encoding", want)
	}
}

// Any client can ask for a list at as many limits as there are, each of them once.
func TestBrotliIsForLongBodiesThatAreAskedForAgain(t *testing.T) {
	for sent, want := range map[string][]string{
		"gzip, br, zstd":    {"zstd", "zstd", "zstd"},
		"br, zstd;q=0.9":    {"zstd", "br", "br"},
		"gzip;q=0.5, br":    {"gzip", "br", "br"},
		"br":                {"", "br", "br"},
		"br, identity;q=0":  {"br", "br", "br"}, // it must have it
		"gzip;q=0.1, *;q=0": {"gzip", "gzip", "gzip"},
	} {
		s := startPlainChain(t, proxy.Options{})
		s.chain.says(200, `{"code":200,"msg":{"text":"`+strings.Repeat("0123456789", 1_000)+`"},"error":""}`)
		for i, coding := range want {
			got := s.get(t, anyPath, "Accept-Encoding", sent)
			if is := got.header.Get("Content-Encoding"); is != coding || !strings.Contains(decode(t, is, got.body), "0123456789") {
				t.Errorf("%s, time %d: %q, want %q", sent, i+1, is, coding)
			}
		}
	}
}

func TestHavingTheAnswerInAnyCodingIsHavingIt(t *testing.T) {
	s := startPlainChain(t, proxy.Options{})
	codings := []string{"", "gzip", "zstd", "br"}
	plain := s.get(t, longPath).header.Get("Etag")
	for _, has := range codings {
		for _, sent := range codings {
			got := s.get(t, longPath, "Accept-Encoding", sent, "If-None-Match", "W/"+tagIn(plain, has))
			if got.status != http.StatusNotModified || got.body != "" {
				t.Errorf("with %q, asking for %q: status %d", has, sent, got.status)
			}
			got.has(t, "Etag", tagIn(plain, has))
			got.has(t, "Content-Encoding", "")
			got.has(t, "Vary", "X-Block-Height, X-Min-Block-Height, X-Min-Evm-Block, Accept, Accept-Encoding, X-Session")
		}
	}
	tests := []struct {
		name, tags, confirmed string
		status                int
	}{
		{"of several, the one that would be sent", plain + `, "x", ` + tagIn(plain, "br") + `, ` + tagIn(plain, "gzip"), tagIn(plain, "br"), 304},
		{"else the first", `"x", ` + tagIn(plain, "zstd") + `, ` + plain, tagIn(plain, "zstd"), 304},
		{"any", "*", tagIn(plain, "br"), 304},
		{"a coding nobody has", tagIn(plain, "deflate"), tagIn(plain, "br"), 200},
		{"the tag without its end", strings.TrimSuffix(plain, `"`), tagIn(plain, "br"), 200},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := s.get(t, longPath, "Accept-Encoding", "br", "If-None-Match", tt.tags)
			if got.status != tt.status {
				t.Errorf("status %d, want %d", got.status, tt.status)
			}
			got.has(t, "Etag", tt.confirmed)
		})
	}
}

func TestABodyIsEncodedOnce(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	s := startPlainChain(t, proxy.Options{Web: web.Options{Registerer: registry}})
	tag := s.get(t, longPath).header.Get("Etag")
	s.get(t, longPath, "Accept-Encoding", "zstd", "If-None-Match", tag) // which needs no body
	for range 3 {
		s.get(t, longPath, "Accept-Encoding", "br")
		s.get(t, longPath, "Accept-Encoding", "gzip")
		s.chain.grow(1) // and changes nothing
		s.get(t, longPath)
	}
	want := []string{`coding:"br" 1`, `coding:"gzip" 1`, `coding:"zstd" 0`}
	if diff := cmp.Diff(want, counted(t, registry, "tipcache_cache_encodings_total")); diff != "" {
		t.Errorf("encoded (-want +got):\n%s", diff)
	}
}

// TestEncodingsOfChangingBodiesAreNotMixedUp has clients of all codings ask while
// every block brings another text.
func TestEncodingsOfChangingBodiesAreNotMixedUp(t *testing.T) {
	s := startPlainChain(t, proxy.Options{})
	var bodies sync.Map // plain tag to plain body
	say := func(n int) {
		s.chain.says(200, `{"code":200,"msg":{"n":"`+strings.Repeat(strconv.Itoa(n), 2000)+`"},"error":""}`)
		s.chain.grow(10)
	}
	say(1)
	var clients sync.WaitGroup
	for i := range 8 {
		clients.Go(func() {
			for range 50 {
				got := s.get(t, anyPath, "Accept-Encoding", []string{"", "gzip", "br", "zstd"}[i%4])
				coding := got.header.Get("Content-Encoding")
				body := decode(t, coding, got.body)
				tag := strings.Replace(got.header.Get("Etag"), "-"+coding+`"`, `"`, 1)
				if known, _ := bodies.LoadOrStore(tag, body); known != body {
					t.Errorf("%s stands for two bodies", tag)
				}
			}
		})
	}
	for n := range 20 {
		say(n)
		time.Sleep(5 * time.Millisecond)
	}
	clients.Wait()
}

// FuzzAcceptEncoding: whatever is sent, the answer is in a coding that was named
// and decodes to the plain one.
func FuzzAcceptEncoding(f *testing.F) {
	for _, sent := range []string{"gzip, deflate, br, zstd", "br;q=0.5,*;q=0.1", "identity;q=0", "x-gzip;q=1.000", "*;q=0", ";;,=q", "gzip;q=1.", "gzip;q=1.1"} {
		f.Add(sent)
	}
	h, _ := newChainProxy(f, proxy.Options{})
	plain := inProcess(h, longPath, "").Body.String()
	f.Fuzz(func(t *testing.T, sent string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, &http.Request{Method: http.MethodGet, URL: &url.URL{Path: longPath}, Header: http.Header{"Accept-Encoding": {sent}}, Body: http.NoBody})
		coding := w.Header().Get("Content-Encoding")
		if !strings.Contains(strings.ToLower(sent), coding) && !strings.Contains(sent, "*") {
			t.Errorf("%q got %s", sent, coding)
		}
		if w.Code == http.StatusOK && !bytes.Equal([]byte(decode(t, coding, w.Body.String())), []byte(plain)) {
			t.Errorf("%q got another body in %q", sent, coding)
		}
	})
}
