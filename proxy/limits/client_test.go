package limits_test

import (
	"log/slog"
	"net/http"
	"net/netip"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/tipcache/tipcache/proxy/limits"
)

// The limit may be removed between the check for one and the admission.
func TestAddressWithoutLimitIsAdmittedWithoutHeaders(t *testing.T) {
	a := limits.New(limits.Shared{}, slog.New(slog.DiscardHandler), prometheus.NewRegistry())
	answer := http.Header{}
	if err := a.Admit(t.Context(), &limits.Client{Address: netip.MustParseAddr("192.0.2.1")}, answer); err != nil || len(answer) > 0 {
		t.Errorf("Admit = %v with headers %v, want nil without headers", err, answer)
	}
}
