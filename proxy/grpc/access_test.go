package grpc_test

import (
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/proxy/limits"
)

func TestAccessRulesApplyToMethods(t *testing.T) {
	d := open(t, newRecordedNode(t), true, func(s *setup) {
		s.web.Limits.Access = []limits.Rule{
			limits.NewDeny("cosmos.bank.*"),
			{Text: "limit 2/h", Patterns: []string{"*.Query/Params"}, Rate: limits.Rate{Requests: 2, Per: time.Hour, Burst: 2}},
		}
	})
	c := d.dial(t)
	r := invoke(t.Context(), c, "/cosmos.bank.v1beta1.Query/Balance", "")
	if got := status.Convert(r.err); got.Code() != codes.PermissionDenied || got.Message() != "access to cosmos.bank.v1beta1.Query/Balance is denied here" {
		t.Errorf("error of a denied method = %v, want PermissionDenied with its name", r.err)
	}
	for i, want := range []codes.Code{codes.OK, codes.OK, codes.ResourceExhausted} {
		invokeAt14(t, c).expectCode(t, want, "call %d of a method with a rate", i+1)
	}
}
