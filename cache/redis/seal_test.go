package redis

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	dto "github.com/prometheus/client_model/go"
	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/expect"
)

func sealedStore(t *testing.T, server *miniredis.Miniredis, key string, now func() time.Time) *Store {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true})
	t.Cleanup(func() { _ = rdb.Close() })
	s := expect.Value(New(rdb, Options{Timeout: 5 * time.Second, SealKey: []byte(key), Now: now}))(t)
	return s
}

func TestUnsignedAgreementsAreIgnored(t *testing.T) {
	const epoch = 1000
	ours := &Store{codec: newCodec([]byte("ours"))}
	key, other, later := ours.epochKey("story-1"), ours.epochKey("story-2"), time.Now().Add(time.Hour).Unix()
	agreed := upstream.Agreement{Epoch: epoch, Anchors: map[int64]string{10: "aa", 20: "bb"}}
	tests := map[string]func(*testing.T, *miniredis.Miniredis){
		"another epoch": func(_ *testing.T, m *miniredis.Miniredis) { m.HSet(key, "e", strconv.FormatInt(later, 10)) },
		"another hash":  func(_ *testing.T, m *miniredis.Miniredis) { m.HSet(key, "a", "10:aa 20:ff") },
		"a block above": func(_ *testing.T, m *miniredis.Miniredis) { m.HSet(key, "a", "10:aa 20:bb 999:cc") },
		"another time":  func(_ *testing.T, m *miniredis.Miniredis) { m.HSet(key, "t", "1") },
		"no seal":       func(_ *testing.T, m *miniredis.Miniredis) { m.HDel(key, "s") },
		"one of its own": func(t *testing.T, m *miniredis.Miniredis) {
			another := sealedStore(t, m, "another", nil)
			expect.Value(another.NextEpoch(t.Context(), "story-1", later-1, later))(t)
			theirs := another.epochKey("story-1")
			m.HSet(key, "e", m.HGet(theirs, "e"), "a", "", "t", "0", "s", m.HGet(theirs, "s"))
		},
		"the seal of another chain": func(t *testing.T, m *miniredis.Miniredis) {
			expect.Value(sealedStore(t, m, "ours", nil).NextEpoch(t.Context(), "story-2", 0, later))(t)
			m.HSet(key, "e", m.HGet(other, "e"), "a", "", "t", "0", "s", m.HGet(other, "s"))
		},
		"no hash":            func(_ *testing.T, m *miniredis.Miniredis) { m.Del(key); _ = m.Set(key, "x") },
		"more than belongs":  func(_ *testing.T, m *miniredis.Miniredis) { m.HSet(key, "a", string(make([]byte, 1<<20))) },
		"nothing at all":     func(_ *testing.T, m *miniredis.Miniredis) { m.FlushAll() },
		"a name of no field": func(_ *testing.T, m *miniredis.Miniredis) { m.HSet(key, "x", "y") },
	}
	for name, writes := range tests {
		t.Run(name, func(t *testing.T) {
			server := miniredis.RunT(t)
			s := sealedStore(t, server, "ours", nil)
			settle := func() {
				t.Helper()
				s.mustAgree(t, epoch)
				for height, hash := range map[int64]string{10: "aa", 20: "bb"} {
					expect.NoError(t, s.AddAnchor(t.Context(), "story-1", epoch, height, hash))
				}
			}
			settle()
			writes(t, server)
			got := s.mustAgree(t, epoch)
			expect.Equal(t, got.Epoch, epoch, "epoch")
			for height, hash := range got.Anchors {
				expect.Equal(t, hash, agreed.Anchors[height], "hash of block %d", height)
			}
			if got, err := s.NextEpoch(t.Context(), "story-1", epoch, epoch+1); err != nil || got != epoch+1 {
				t.Errorf("NextEpoch = %d, %v", got, err)
			}
		})
	}
}

func TestDialectWithoutOurSignatureIsIgnored(t *testing.T) {
	for name, tt := range map[string]struct {
		write func(*testing.T, *miniredis.Miniredis)
		want  string
	}{
		"nothing":       {func(*testing.T, *miniredis.Miniredis) {}, ""},
		"a replica's":   {func(t *testing.T, m *miniredis.Miniredis) { noteDialect(t, m, "ours", "story-1") }, "cosmos"},
		"another key's": {func(t *testing.T, m *miniredis.Miniredis) { noteDialect(t, m, "another", "story-1") }, ""},
		"no seal":       {func(_ *testing.T, m *miniredis.Miniredis) { _ = m.Set(dialectKey("story-1"), "cosmos") }, ""},
		"another type":  {func(_ *testing.T, m *miniredis.Miniredis) { m.HSet(dialectKey("story-1"), "e", "cosmos") }, ""},
		"another chain's": {func(t *testing.T, m *miniredis.Miniredis) {
			noteDialect(t, m, "ours", "story-2")
			move(t, m, "story-2", "story-1")
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			server := miniredis.RunT(t)
			tt.write(t, server)
			if got, _ := sealedStore(t, server, "ours", nil).Dialect(t.Context(), "story-1"); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func noteDialect(t *testing.T, server *miniredis.Miniredis, key, chain string) {
	t.Helper()
	expect.NoError(t, sealedStore(t, server, key, nil).SaveDialect(t.Context(), chain, "cosmos"))
}

func move(t *testing.T, server *miniredis.Miniredis, from, to string) {
	t.Helper()
	noted := expect.Value(server.Get(dialectKey(from)))(t)
	_ = server.Set(dialectKey(to), noted)
}

func TestReplicasWithSameKeyAgree(t *testing.T) {
	server := miniredis.RunT(t)
	first, second := sealedStore(t, server, "ours", nil), sealedStore(t, server, "ours", nil)
	if got, err := first.NextEpoch(t.Context(), "story-1", 0, 5); err != nil || got != 5 {
		t.Fatalf("NextEpoch = %d, %v", got, err)
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
			for err != nil { // the others were faster, time and again
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

// purges collects what a subscriber is told to purge.
type purges struct {
	up     chan struct{}
	purged chan cache.Selection
}

func (h purges) Notify(string, bool)           {}
func (h purges) Renewed(string, cache.Renewal) {}
func (h purges) NotifyAll() {
	select {
	case h.up <- struct{}{}:
	default:
	}
}
func (h purges) Purge(sel cache.Selection) int { h.purged <- sel; return 0 }

func TestUnsignedPurgesAreIgnored(t *testing.T) {
	server := miniredis.RunT(t)
	now := time.Unix(1_800_000_000, 0)
	ours := func(shift time.Duration) *Store {
		return sealedStore(t, server, "ours", func() time.Time { return now.Add(shift) })
	}
	replica, h := ours(0), purges{make(chan struct{}, 1), make(chan cache.Selection, 9)}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); replica.Subscribe(ctx, "story-1", h) }()
	t.Cleanup(func() { stop(); <-done })
	<-h.up
	announce := func(s *Store, namespace, prefix string) {
		t.Helper()
		expect.NoError(t, s.AnnouncePurge(t.Context(), namespace, cache.Selection{Prefix: prefix}))
	}
	text := expect.Value(json.Marshal(announcement{cache.Selection{Prefix: "plain"}, now.UnixMilli()}))(t)
	channel := channelOf("story-1")
	server.Publish(channel, "!"+string(text))
	server.Publish(channel, "!"+string(sealer("ours").seal(channelOf("story-2"), text)))
	announce(sealedStore(t, server, "another", func() time.Time { return now }), "story-1", "another key")
	announce(ours(-2*time.Minute), "story-1", "heard before and sent again")
	announce(ours(2*time.Minute), "story-1", "from the future")
	announce(ours(30*time.Second), "story-1", "ours")
	expect.NoDiff(t, <-h.purged, cache.Selection{Prefix: "ours"}, "first purge")
	var unsealed, late dto.Metric
	expect.NoError(t, errors.Join(replica.errors[foreign].Write(&unsealed), replica.errors[corrupt].Write(&late)))
	if n, m := unsealed.GetCounter().GetValue(), late.GetCounter().GetValue(); n != 3 || m != 2 {
		t.Errorf("foreign = %v, corrupt = %v; want 3 and 2", n, m)
	}
}
