package redis

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	dto "github.com/prometheus/client_model/go"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

func sealedStore(t *testing.T, server *miniredis.Miniredis, key string, now func() time.Time) *Store {
	t.Helper()
	return expect.Value(New(redistest.Client(t, server.Addr()), Options{Settings: Settings{Timeout: 5 * time.Second, SealKey: key}, Now: now}))(t)
}

func TestUnsignedAgreementsAreIgnored(t *testing.T) {
	const epoch = 1000
	ours := &Store{codec: newCodec([]byte("ours"))}
	key, other, later := ours.epochKey("story-1"), ours.epochKey("story-2"), time.Now().Add(time.Hour).Unix()
	anchors := map[int64]string{10: "aa", 20: "bb"}
	tests := map[string]func(*testing.T, *miniredis.Miniredis){
		"another epoch":   func(_ *testing.T, m *miniredis.Miniredis) { m.HSet(key, "e", strconv.FormatInt(later, 10)) },
		"another hash":    func(_ *testing.T, m *miniredis.Miniredis) { m.HSet(key, "a", "10:aa 20:ff") },
		"one more anchor": func(_ *testing.T, m *miniredis.Miniredis) { m.HSet(key, "a", "10:aa 20:bb 999:cc") },
		"another time":    func(_ *testing.T, m *miniredis.Miniredis) { m.HSet(key, "t", "1") },
		"no signature":    func(_ *testing.T, m *miniredis.Miniredis) { m.HDel(key, "s") },
		"another signing key": func(t *testing.T, m *miniredis.Miniredis) {
			another := sealedStore(t, m, "another", nil)
			expect.Value(another.NextEpoch(t.Context(), "story-1", later-1, later))(t)
			theirs := another.epochKey("story-1")
			m.HSet(key, "e", m.HGet(theirs, "e"), "a", "", "t", "0", "s", m.HGet(theirs, "s"))
		},
		"the signature of another chain": func(t *testing.T, m *miniredis.Miniredis) {
			expect.Value(sealedStore(t, m, "ours", nil).NextEpoch(t.Context(), "story-2", 0, later))(t)
			m.HSet(key, "e", m.HGet(other, "e"), "a", "", "t", "0", "s", m.HGet(other, "s"))
		},
		"a string":       func(_ *testing.T, m *miniredis.Miniredis) { m.Del(key); _ = m.Set(key, "x") },
		"too long":       func(_ *testing.T, m *miniredis.Miniredis) { m.HSet(key, "a", string(make([]byte, 1<<20))) },
		"an empty Redis": func(_ *testing.T, m *miniredis.Miniredis) { m.FlushAll() },
		"one more field": func(_ *testing.T, m *miniredis.Miniredis) { m.HSet(key, "x", "y") },
	}
	for name, write := range tests {
		t.Run(name, func(t *testing.T) {
			server := miniredis.RunT(t)
			s := sealedStore(t, server, "ours", nil)
			s.mustAgree(t, epoch)
			for height, hash := range anchors {
				expect.NoError(t, s.AddAnchor(t.Context(), "story-1", epoch, height, hash))
			}
			write(t, server)
			got := s.mustAgree(t, epoch)
			expect.Equal(t, got.Epoch, epoch, "epoch")
			for height, hash := range got.Anchors {
				expect.Equal(t, hash, anchors[height], "hash of block %d", height)
			}
			if got, err := s.NextEpoch(t.Context(), "story-1", epoch, epoch+1); err != nil || got != epoch+1 {
				t.Errorf("NextEpoch = %d, %v; want %d, nil", got, err, epoch+1)
			}
		})
	}
}

func TestReplicasWithSameKeyAgree(t *testing.T) {
	server := miniredis.RunT(t)
	first, second := sealedStore(t, server, "ours", nil), sealedStore(t, server, "ours", nil)
	if got, err := first.NextEpoch(t.Context(), "story-1", 0, 5); err != nil || got != 5 {
		t.Fatalf("NextEpoch = %d, %v; want 5, nil", got, err)
	}
	expect.NoError(t, first.AddAnchor(t.Context(), "story-1", 5, 10, "aa"))
	got := second.mustAgree(t, 0)
	got.SinceConfirmed = 0
	expect.NoDiff(t, got, upstream.Agreement{Epoch: 5, Anchors: map[int64]string{10: "aa"}}, "agreement")
}

func TestConcurrentUpdatesOfAgreementSucceed(t *testing.T) {
	server := miniredis.RunT(t)
	const replicas = 8
	ended := make(chan int64, replicas)
	for i := range replicas {
		s := sealedStore(t, server, "ours", nil)
		go func() {
			epoch, err := s.NextEpoch(context.Background(), "story-1", 0, int64(100+i))
			for err != nil { // another replica was faster each time
				epoch, err = s.NextEpoch(context.Background(), "story-1", 0, int64(100+i))
			}
			ended <- epoch
		}()
	}
	want := <-ended
	for range replicas - 1 {
		expect.Equal(t, <-ended, want, "epoch")
	}
}

// purgeLog is a subscriber that receives purges.
type purgeLog struct {
	nopSubscriber
	subscribed chan struct{}
	purged     chan cache.Selection
}

func (l purgeLog) NotifyAll() {
	select {
	case l.subscribed <- struct{}{}:
	default:
	}
}

func (l purgeLog) Purge(sel cache.Selection) int {
	l.purged <- sel
	return 0
}

func TestUnsignedPurgesAreIgnored(t *testing.T) {
	server := miniredis.RunT(t)
	now := time.Unix(1_800_000_000, 0)
	ours := func(shift time.Duration) *Store {
		return sealedStore(t, server, "ours", func() time.Time { return now.Add(shift) })
	}
	replica, log := ours(0), purgeLog{subscribed: make(chan struct{}, 1), purged: make(chan cache.Selection, 9)}
	ctx, stop := context.WithCancel(t.Context())
	var subscription sync.WaitGroup
	defer subscription.Wait()
	defer stop()
	subscription.Go(func() { replica.Subscribe(ctx, "story-1", log) })
	<-log.subscribed
	announce := func(s *Store, namespace, prefix string) {
		t.Helper()
		expect.NoError(t, s.AnnouncePurge(t.Context(), namespace, cache.Selection{Prefix: prefix}))
	}
	text := expect.Value(json.Marshal(announcement{cache.Selection{Prefix: "plain"}, now.UnixMilli()}))(t)
	channel := channelOf("story-1")
	server.Publish(channel, "!"+string(text))
	server.Publish(channel, "!"+string(sealer("ours").seal(channelOf("story-2"), text)))
	announce(sealedStore(t, server, "another", func() time.Time { return now }), "story-1", "another key")
	announce(ours(-2*time.Minute), "story-1", "sent again after two minutes")
	announce(ours(2*time.Minute), "story-1", "from the future")
	announce(ours(30*time.Second), "story-1", "ours")
	expect.NoDiff(t, <-log.purged, cache.Selection{Prefix: "ours"}, "first purge")
	var unsigned, late dto.Metric
	expect.NoError(t, errors.Join(replica.errors[foreign].Write(&unsigned), replica.errors[corrupt].Write(&late)))
	expect.Equal(t, unsigned.GetCounter().GetValue(), 3, "errors of unsigned messages")
	expect.Equal(t, late.GetCounter().GetValue(), 2, "errors of messages with another time")
}
