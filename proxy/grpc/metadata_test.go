package grpc_test

import (
	"encoding/base64"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	spb "google.golang.org/genproto/googleapis/rpc/status"
	google "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/tipcache/tipcache/proxy/grpc"
	"github.com/tipcache/tipcache/upstream/expect"
)

// unsafeMetadata would control browsers, caches and proxies if it were passed on.
var unsafeMetadata = metadata.Pairs(
	"set-cookie", "a=b", "access-control-allow-origin", "https://evil.example", "location", "/evil", "clear-site-data", `"*"`,
	"x-session", "9.9", "date", "yesterday", "x-accel-redirect", "/etc/passwd", "cache-control", "public", "x-own", "left out",
)

// failWith returns a service that sends headers, messages, trailers and a status.
func failWith(st *status.Status, header, trailer metadata.MD, messages ...string) func(google.ServerStream) error {
	return func(stream google.ServerStream) error {
		_ = stream.SetHeader(header)
		for _, m := range messages {
			message := []byte(m)
			_ = stream.SendMsg(&message)
		}
		stream.SetTrailer(trailer)
		return st.Err()
	}
}

// callWebForTrailers calls a method by gRPC-Web, and returns the headers and the lines of the trailers.
func (d *servers) callWebForTrailers(t *testing.T, method string) (http.Header, []string) {
	t.Helper()
	h, body := d.callWeb(t, "application/grpc-web+proto", method, frames(""))
	_, text, _ := strings.Cut(body, "\x80") // the frame of trailers follows messages of letters
	return h, strings.Split(strings.TrimSuffix(text[min(4, len(text)):], "\r\n"), "\r\n")
}

func TestGRPCWebPassesNoMetadataThatActsOnBrowsersOrProxies(t *testing.T) {
	t.Parallel()
	const injected = "x\r\ngrpc-status: 0\r\nset-cookie: a=b"
	coded := base64.RawStdEncoding.EncodeToString([]byte(injected))
	sent := metadata.Join(unsafeMetadata, metadata.Pairs("x-cosmos-gas", "7", "x-listed", "1", "trace-bin", injected))
	n := newRecordedNode(t)
	d := open(t, n, true, func(s *setup) { s.grpc.WebMetadata = []string{"x-listed"} })
	for _, messages := range [][]string{{"message"}, nil} {
		n.setService(failWith(status.New(codes.NotFound, "none"), sent, metadata.Join(sent, metadata.Pairs("grpc-status-details-bin", injected)), messages...))
		header, trailers := d.callWebForTrailers(t, "/x.Y/Z")
		for name := range unsafeMetadata {
			if got := header.Values(name); slices.Contains(got, unsafeMetadata[name][0]) {
				t.Errorf("with %d messages: header %s = %q, want it left out", len(messages), name, got)
			}
		}
		times := 2 - len(messages) // without messages the trailers are in the headers
		for name, value := range map[string]string{"X-Cosmos-Gas": "7", "X-Listed": "1", "Trace-Bin": coded} {
			if got, want := header.Values(name), slices.Repeat([]string{value}, times); !slices.Equal(got, want) {
				t.Errorf("with %d messages: header %s = %q, want %q", len(messages), name, got, want)
			}
		}
		want := []string{"grpc-message: none", "grpc-status-details-bin: " + coded, "grpc-status: 5", "trace-bin: " + coded, "x-cosmos-gas: 7", "x-listed: 1"}
		if slices.Sort(trailers); messages != nil && !slices.Equal(trailers, want) {
			t.Errorf("trailers = %q, want %q", trailers, want)
		}
	}
}

func TestGRPCWebPassesTheDetailsOfAnError(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	d := open(t, n, true)
	st := expect.Value(status.New(codes.Unavailable, "busy").WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(1)}))(t)
	n.setService(failWith(st, metadata.Pairs("x-cosmos-block-height", "746"), nil))
	for _, method := range []string{"/x.Y/Z", "/x.Query/Z"} { // passed on, and cached
		header, trailers := d.callWebForTrailers(t, method)
		text := header.Get("Grpc-Status-Details-Bin")
		for _, line := range trailers { // if the status follows the headers
			if value, ok := strings.CutPrefix(line, "grpc-status-details-bin: "); ok {
				text = value
			}
		}
		details, err := base64.RawStdEncoding.DecodeString(text)
		got := new(spb.Status)
		if err != nil || proto.Unmarshal(details, got) != nil || !proto.Equal(got, st.Proto()) {
			t.Errorf("%s: grpc-status-details-bin = %q (%v), want %v in base64; header %v, trailers %q", method, text, err, st.Proto(), header, trailers)
		}
	}
}

func TestFailedCallKeepsTheHeadersOfTheNode(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	d := open(t, n, true)
	n.setService(failWith(status.New(codes.NotFound, "none"), metadata.Pairs("x-own", "header", "x-accel-redirect", "/etc/passwd"), metadata.Pairs("x-own", "trailer", "x-accel-charset", "x")))
	r := invoke(t.Context(), d.dial(t), "/x.Y/Z", "")
	for _, got := range []metadata.MD{r.header, r.trailer} {
		if own := got.Get("x-own"); len(own) != 1 {
			t.Errorf("metadata = %v, want x-own", got)
		}
		for name := range maps.Keys(got) {
			if strings.HasPrefix(name, "x-accel-") {
				t.Errorf("metadata %s passed, want it left out", name)
			}
		}
	}
	if status.Code(r.err) != codes.NotFound {
		t.Errorf("status = %v, want NotFound", r.err)
	}
}

func TestFalseHeightsOfANodeAreLeftOut(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	d := open(t, n, true)
	c := d.dial(t)
	for name, tt := range map[string]struct {
		stated []string
		want   string
	}{
		"the newest block":    {[]string{"746"}, "746"},
		"an earlier block":    {[]string{"14"}, "14"},
		"the largest integer": {[]string{"9223372036854775807"}, ""},
		"too far above":       {[]string{"1000000"}, ""},
		"negative":            {[]string{"-5"}, ""},
		"zero":                {[]string{"0"}, ""},
		"not a number":        {[]string{"new"}, ""},
		"with a sign":         {[]string{"+746"}, ""},
		"twice":               {[]string{"746", "746"}, ""},
		"two heights":         {[]string{"746", "14"}, ""},
	} {
		stated := metadata.MD{"x-cosmos-block-height": tt.stated, "x-cosmos-gas": {"7"}}
		for part, service := range map[string]func(google.ServerStream) error{
			"headers":  failWith(nil, stated, nil, "message"),
			"trailers": failWith(nil, nil, stated, "message"),
			"status":   failWith(status.New(codes.NotFound, "none"), nil, stated),
		} {
			n.setService(service)
			r := invoke(t.Context(), c, "/x.Y/Z", "")
			got := metadata.Join(r.header, r.trailer)
			if height := strings.Join(got.Get("x-cosmos-block-height"), ","); height != tt.want || !slices.Contains(got.Get("x-cosmos-gas"), "7") {
				t.Errorf("%s in %s: height = %q in %v, want %q and the other metadata", name, part, height, got, tt.want)
			}
			web, lines := d.callWebForTrailers(t, "/x.Y/Z")
			height := web.Get("X-Cosmos-Block-Height")
			for _, line := range lines {
				if value, ok := strings.CutPrefix(line, "x-cosmos-block-height: "); ok {
					height = value
				}
			}
			expect.Equal(t, height, tt.want, "%s in %s: height by gRPC-Web", name, part)
		}
	}
}

func TestOnlyMetadataThatActsOnNothingIsAccepted(t *testing.T) {
	for name, ok := range map[string]bool{
		"x-cosmos-block-height": true, "grpc-status-details-bin": true, "x_1.y": true,
		"": false, "X-Upper": false, "x y": false, "grpc-status": false, "access-control-allow-origin": false, "content-type": false, "vary": false,
	} {
		if err := grpc.CheckWebMetadata(name); (err == nil) != ok {
			t.Errorf("CheckWebMetadata(%q) = %v, want success %t", name, err, ok)
		}
	}
}
