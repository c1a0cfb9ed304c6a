package redis

import (
	"bytes"
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/upstream/expect"
)

// In the midst of an update some replicas have another seal key than others, or none.
func TestReplicasWithDifferentKeysHaveSeparateAgreements(t *testing.T) {
	server := miniredis.RunT(t)
	var log bytes.Buffer
	stores := []*Store{sealedStore(t, server, "", nil), sealedStore(t, server, "the new key", nil), sealedStore(t, server, "the old key", nil)}
	for i, s := range stores {
		s.o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		expect.Value(s.NextEpoch(t.Context(), "story-1", 0, int64(100+i)))(t)
	}
	want := map[int64]string{}
	for height := int64(1); height <= 5; height++ {
		want[height] = "hash" + strconv.FormatInt(height, 10)
		for i, s := range stores {
			expect.NoError(t, s.AddAnchor(t.Context(), "story-1", int64(100+i), height, want[height]))
		}
	}
	for i, s := range stores {
		got := s.mustAgree(t, 0)
		if diff := cmp.Diff(want, got.Anchors); diff != "" || got.Epoch != int64(100+i) {
			t.Errorf("epoch %d, want %d; anchors (-want +got):\n%s", got.Epoch, 100+i, diff)
		}
	}
	if log.Len() > 0 {
		t.Errorf("log = %s, want none", &log)
	}
}

func TestCorruptEntriesAreLoggedOncePerMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := expect.Value(New(nil, Options{}))(t)
		var log bytes.Buffer
		s.o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		for range 3 {
			s.reportCorrupt("entry", errForeign)
			s.reportCorrupt("entry", errCorrupt)
			s.reportCorrupt("entry", errForeign)
			time.Sleep(logInterval - time.Second)
		}
		var omitted []string
		for line := range strings.Lines(log.String()) {
			_, number, _ := strings.Cut(strings.TrimSpace(line), "omitted=")
			omitted = append(omitted, number)
		}
		if diff := cmp.Diff([]string{"0", "0", "3", "1"}, omitted); diff != "" {
			t.Errorf("omitted lines (-want +got):\n%s\n%s", diff, &log)
		}
	})
}
