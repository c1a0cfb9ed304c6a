package collections_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m, cluster.stop) }

// silent checks an error that a silent store is told with. Nothing of it but
// the cause may give away where and what the store is.
func silent(t *testing.T, err error, kind upstream.Kind) *upstream.Error {
	t.Helper()
	got, ok := errors.AsType[*upstream.Error](err)
	if !ok || got.Kind != kind {
		t.Fatalf("error = %#v, want kind %d", err, kind)
	}
	if !strings.HasPrefix(got.Msg, "the collection store ") || strings.ContainsAny(got.Msg, ":/0123456789") {
		t.Errorf("message = %q", got.Msg)
	}
	return got
}
