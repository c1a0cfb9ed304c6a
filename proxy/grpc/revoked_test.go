package grpc_test

import (
	"crypto/sha256"
	"errors"
	"testing"
	"time"

	google "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream/expect"
)

// withKey requires the key "secret", which has a rate.
func withKey(burst int) func(*setup) {
	return func(s *setup) {
		s.blocks.Auth = true
		s.web.Keys = []limits.Key{{Name: "one", SHA256: sha256.Sum256([]byte("secret")), Rate: limits.Rate{Requests: 1, Per: time.Hour, Burst: burst}}}
	}
}

// replyToEach answers each message of a stream, of which the first has come.
func replyToEach(stream google.ServerStream) error {
	for {
		message := []byte("reply")
		if err := stream.SendMsg(&message); err != nil {
			return err
		}
		if err := stream.RecvMsg(&message); err != nil {
			return err
		}
	}
}

func stream(t *testing.T, c *google.ClientConn) google.ClientStream {
	t.Helper()
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-api-key", "secret")
	s := expect.Value(c.NewStream(ctx, &google.StreamDesc{ServerStreams: true, ClientStreams: true}, "/x.Y/Z"))(t)
	return s
}

func TestPassedStreamEndsWhenItsKeyIsRemoved(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	n.answer(replyToEach)
	d := open(t, n, true, withKey(10))
	s := stream(t, d.dial(t))
	message := []byte("message")
	expect.NoError(t, errors.Join(s.SendMsg(&message), s.RecvMsg(&message)))
	d.stack.SetKeys([]limits.Key{{Name: "one", SHA256: sha256.Sum256([]byte("other"))}})
	if err := s.RecvMsg(&message); status.Code(err) != codes.Unauthenticated {
		t.Errorf("the stream ended with %v, want Unauthenticated", err)
	}
	expect.Equal(t, expect.Metric(t, d.metrics, "tipcache_proxy_revoked_total"), 1, "revoked streams")
}

func TestPassedStreamEndsWhenARuleDeniesIt(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	n.answer(replyToEach)
	d := open(t, n, true)
	s := stream(t, d.dial(t))
	message := []byte("message")
	expect.NoError(t, errors.Join(s.SendMsg(&message), s.RecvMsg(&message)))
	d.stack.SetLimits(limits.Limits{Access: []limits.Rule{limits.NewDeny("x.Y/*")}})
	if err := s.RecvMsg(&message); status.Code(err) != codes.PermissionDenied {
		t.Errorf("the stream ended with %v, want PermissionDenied", err)
	}
}

func TestMessagesOfAStreamCountAgainstTheRateOfItsKey(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	n.answer(replyToEach)
	d := open(t, n, true, withKey(3))
	c := d.dial(t)
	s := stream(t, c)
	for range 3 { // the call pays for the first
		message := []byte("message")
		expect.NoError(t, errors.Join(s.SendMsg(&message), s.RecvMsg(&message)))
	}
	if r := atBlock14(t, c, "x-api-key", "secret"); status.Code(r.err) != codes.ResourceExhausted {
		t.Errorf("a call after three messages ended with %v, want ResourceExhausted", r.err)
	}
}
