package grpc_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestAccessRulesApplyToMethods(t *testing.T) {
	n := newRecordedNode(t)
	d := open(t, n, true, func(s *setup) {
		s.web.Limits.Access = []limits.Rule{
			limits.NewDeny("cosmos.bank.*"),
			{Text: "limit 2/h", Patterns: []string{"*.Query/Params"}, Rate: limits.Rate{Requests: 2, Per: time.Hour, Burst: 2}},
		}
	})
	c := d.dial(t)
	r := ask(t.Context(), c, "/cosmos.bank.v1beta1.Query/Balance", nil)
	if got := status.Convert(r.err); got.Code() != codes.PermissionDenied || got.Message() != "access to cosmos.bank.v1beta1.Query/Balance is denied here" {
		t.Errorf("a denied method = %v, want PermissionDenied", r.err)
	}
	for i, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
		expect.Equal(t, status.Code(atBlock14(t, c).err), want, "status of call %d of a method with a rate", i+1)
	}
}
