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

	"github.com/tipcache/tipcache/upstream/expect"
)

// During a rolling update, replicas have different seal keys or none.
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
		expect.Equal(t, got.Epoch, int64(100+i), "epoch of store %d", i)
		expect.NoDiff(t, got.Anchors, want, "anchors of store %d", i)
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
		expect.NoDiff(t, omitted, []string{"0", "0", "3", "1"}, "omitted lines in %s", &log)
	})
}
