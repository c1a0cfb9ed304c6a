package grpc_test

import (
	"crypto/sha256"
	"testing"
	"time"

	google "google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream/expect"
)

// withKey requires the key "secret", whose rate has a burst.
func withKey(burst int) func(*setup) {
	return func(s *setup) {
		s.blocks.Auth = true
		s.web.Keys = []limits.Key{{Name: "one", SHA256: sha256.Sum256([]byte("secret")), Rate: limits.Rate{Requests: 1, Per: time.Hour, Burst: burst}}}
	}
}

// replyToEach answers each message of a stream. The first has been received.
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

func TestPassedStreamEndsWhenItsKeyIsRemoved(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	n.setService(replyToEach)
	d := open(t, n, true, withKey(10))
	s := openStream(t, d.dial(t), "/x.Y/Z", "00", "x-api-key", "secret")
	d.stack.SetKeys([]limits.Key{{Name: "one", SHA256: sha256.Sum256([]byte("other"))}})
	if err := s.RecvMsg(new([]byte)); status.Code(err) != codes.Unauthenticated {
		t.Errorf("error of the stream = %v, want Unauthenticated", err)
	}
	expect.Equal(t, expect.Metric(t, d.metrics, "tipcache_proxy_revoked_total"), 1, "revoked streams")
}

func TestPassedStreamEndsWhenARuleDeniesIt(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	n.setService(replyToEach)
	d := open(t, n, true)
	s := openStream(t, d.dial(t), "/x.Y/Z", "00")
	d.stack.SetLimits(limits.Limits{Access: []limits.Rule{limits.NewDeny("x.Y/*")}})
	if err := s.RecvMsg(new([]byte)); status.Code(err) != codes.PermissionDenied {
		t.Errorf("error of the stream = %v, want PermissionDenied", err)
	}
}

func TestMessagesOfAStreamCountAgainstTheRateOfItsKey(t *testing.T) {
	t.Parallel()
	n := newRecordedNode(t)
	n.setService(replyToEach)
	d := open(t, n, true, withKey(3))
	c := d.dial(t)
	s := openStream(t, c, "/x.Y/Z", "00", "x-api-key", "secret") // the call and its first message count as one request
	for range 2 {
		exchangeMessage(t, s, "00")
	}
	invokeAt14(t, c, "x-api-key", "secret").expectCode(t, codes.ResourceExhausted, "call after three messages")
}
