package grpc_test

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	google "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/expect"
)

const (
	serving    = healthpb.HealthCheckResponse_SERVING
	notServing = healthpb.HealthCheckResponse_NOT_SERVING
	unknown    = healthpb.HealthCheckResponse_SERVICE_UNKNOWN
)

// openHealth starts the servers with a readiness, and returns a client for health checks.
func openHealth(t *testing.T, changes ...func(*setup)) (*servers, *web.Readiness, healthpb.HealthClient) {
	t.Helper()
	ready := web.NewReadiness()
	d := open(t, newRecordedNode(t), false, append(changes, func(s *setup) { s.web.Readiness = ready })...)
	c := expect.Value(google.NewClient(d.addr, google.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { _ = c.Close() })
	return d, ready, healthpb.NewHealthClient(c)
}

// expectNext fails the test unless the next state of a Watch is want.
func expectNext(t *testing.T, watch google.ServerStreamingClient[healthpb.HealthCheckResponse], want healthpb.HealthCheckResponse_ServingStatus) {
	t.Helper()
	if got, err := watch.Recv(); got.GetStatus() != want {
		t.Errorf("state = %v, error %v; want %v", got.GetStatus(), err, want)
	}
}

func TestHealthCheckFollowsReadiness(t *testing.T) {
	t.Parallel()
	d, ready, c := openHealth(t)
	watch := expect.Value(c.Watch(t.Context(), &healthpb.HealthCheckRequest{}))(t)
	for _, want := range []healthpb.HealthCheckResponse_ServingStatus{notServing, serving, notServing} {
		ready.Set(want == serving, nil)
		expect.Equal(t, expect.Value(c.Check(t.Context(), &healthpb.HealthCheckRequest{}))(t).GetStatus(), want, "Check")
		expectNext(t, watch, want)
		h, body := d.callWeb(t, "application/grpc-web+proto", healthpb.Health_Check_FullMethodName, make([]byte, 5))
		if wanted := fmt.Sprintf("\x00\x00\x00\x00\x02\x08%c", want); !strings.HasPrefix(body, wanted) {
			t.Errorf("Check by gRPC-Web = %q with headers %v, want the frame %q", body, h, wanted)
		}
	}
	d.handler.Drain()
	if _, err := watch.Recv(); status.Code(err) != codes.Unavailable {
		t.Errorf("Watch after the drain = %v, want %v", err, codes.Unavailable)
	}
}

func TestHealthOfOtherNamesIsUnknown(t *testing.T) {
	t.Parallel()
	_, ready, c := openHealth(t)
	ready.Set(true, nil)
	other := &healthpb.HealthCheckRequest{Service: "cosmos.bank.v1beta1.Query"}
	if _, err := c.Check(t.Context(), other); status.Code(err) != codes.NotFound {
		t.Errorf("Check = %v, want %v", err, codes.NotFound)
	}
	ctx, cancel := context.WithCancel(t.Context())
	watch := expect.Value(c.Watch(ctx, other))(t)
	expectNext(t, watch, unknown)
	cancel()
	if _, err := watch.Recv(); status.Code(err) != codes.Canceled {
		t.Errorf("Watch = %v after its context, want %v", err, codes.Canceled)
	}
	if _, err := c.List(t.Context(), &healthpb.HealthListRequest{}); status.Code(err) != codes.Unimplemented {
		t.Errorf("List = %v, want %v", err, codes.Unimplemented)
	}
}

func TestHealthChecksNeedNoKeyAndAreNotLimited(t *testing.T) {
	t.Parallel()
	d, ready, c := openHealth(t, withKey(1), func(s *setup) {
		s.web.Limits = limits.Limits{Address: limits.Rate{Requests: 1, Per: time.Hour, Burst: 1}, Access: []limits.Rule{limits.NewDeny("grpc.health.v1.*")}}
	})
	ready.Set(true, nil)
	for range 5 {
		expect.Equal(t, expect.Value(c.Check(t.Context(), &healthpb.HealthCheckRequest{}))(t).GetStatus(), serving, "Check")
		if h, body := d.callWeb(t, "application/grpc-web+proto", healthpb.Health_Check_FullMethodName, make([]byte, 5)); len(body) < 7 {
			t.Errorf("Check by gRPC-Web = %q with headers %v, want a message", body, h)
		}
	}
}

func TestWatchByGRPCWebFollowsReadiness(t *testing.T) {
	t.Parallel()
	d, ready, _ := openHealth(t)
	r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodPost, d.web.URL+healthpb.Health_Watch_FullMethodName, strings.NewReader("\x00\x00\x00\x00\x00")))(t)
	r.Header.Set("Content-Type", "application/grpc-web+proto")
	resp := expect.Value(http.DefaultClient.Do(r))(t)
	defer resp.Body.Close()
	body := bufio.NewReader(resp.Body)
	for _, want := range []healthpb.HealthCheckResponse_ServingStatus{notServing, serving} {
		var frame [7]byte
		for i := range frame {
			frame[i] = expect.Value(body.ReadByte())(t)
		}
		expect.Equal(t, frame[6], byte(want), "state")
		ready.Set(true, nil)
	}
}

func TestWatchCountsAsAStreamOfItsClient(t *testing.T) {
	t.Parallel()
	d, _, c := openHealth(t, withMemory(8<<20))
	before := d.cache.Account().Used()
	ctx, cancel := context.WithCancel(t.Context())
	for range 2 {
		expectNext(t, expect.Value(c.Watch(ctx, &healthpb.HealthCheckRequest{}))(t), notServing)
	}
	if used := d.cache.Account().Used() - before; used < 2*64<<10 {
		t.Errorf("reserved bytes = %d for two watches, want at least 128 KiB", used)
	}
	cancel()
	expect.EventuallyEqual(t, "the memory is released", d.cache.Account().Used, before)
	var ended error
	for range 200 { // more than the memory allows
		if ended != nil {
			break
		}
		watch := expect.Value(c.Watch(t.Context(), &healthpb.HealthCheckRequest{}))(t)
		_, ended = watch.Recv()
	}
	if status.Code(ended) != codes.ResourceExhausted {
		t.Errorf("error of too many watches = %v, want %v", ended, codes.ResourceExhausted)
	}
}
