package collections_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/leaktest"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

// wantSilence returns the error of an unusable store. It fails unless its message has no details about the store.
func wantSilence(t *testing.T, err error, kind upstream.Kind) *upstream.Error {
	t.Helper()
	got, ok := errors.AsType[*upstream.Error](err)
	if !ok || got.Kind != kind {
		t.Fatalf("error = %#v, want kind %d", err, kind)
	}
	if !strings.HasPrefix(got.Msg, "the collection store ") || strings.ContainsAny(got.Msg, ":/0123456789") {
		t.Errorf("message = %q, want one about the collection store without its address", got.Msg)
	}
	return got
}
