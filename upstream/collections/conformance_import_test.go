package collections_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestImportReplacesAndAdds(t *testing.T) {
	t.Parallel()
	testEachDriver(t, func(t *testing.T, f fixture) {
		all := some(300)
		load(t, f.writer, all[:200])
		before := list(t, f.store, collections.Query{})

		changed := all[100:]
		for i := range changed {
			changed[i].AssetCount += 100
		}
		load(t, f.writer, changed)
		after := list(t, f.store, collections.Query{})
		expect.Equal(t, before.Total, 200, "total before the second import")
		expect.Equal(t, after.Total, 300, "total after the second import")
		if f.generations && after.Generation <= before.Generation {
			t.Errorf("generation = %d, want more than %d", after.Generation, before.Generation)
		}
		wantStored(t, f.store, all)
	})
}

func TestUnchangedImportDoesNotChangeStore(t *testing.T) {
	t.Parallel()
	testEachDriver(t, func(t *testing.T, f fixture) {
		all := some(150)
		load(t, f.writer, all)
		before := list(t, f.store, collections.Query{})
		load(t, f.writer, all)
		expect.NoDiff(t, list(t, f.store, collections.Query{}), before, "page")
	})
}

func TestLastOfRepeatedAddressesIsStored(t *testing.T) {
	t.Parallel()
	testEachDriver(t, func(t *testing.T, f fixture) {
		const early = 4000 // in the first of two statements
		all := some(5000)
		last := all[early]
		last.AssetCount, last.Address = 77, "0x"+strings.ToUpper(last.Address[2:])
		load(t, f.writer, append(all[:len(all):len(all)], last))
		all[early] = last
		wantStored(t, f.store, all)
	})
}

func TestFailedImportDoesNotChangeStore(t *testing.T) {
	t.Parallel()
	testEachDriver(t, func(t *testing.T, f fixture) {
		all := some(300)
		load(t, f.writer, all[:100])
		before := list(t, f.store, collections.Query{})
		broken := errors.New("line 200: broken")
		bad := all[150]
		bad.AssetCount = -1
		for name, seq := range map[string]func(func(collections.Collection, error) bool){
			"failed sequence": func(yield func(collections.Collection, error) bool) {
				for c := range each(all[50:]) {
					if !yield(c, nil) {
						return
					}
				}
				yield(collections.Collection{}, broken)
			},
			"refused collection": each(append(all[50:150:150], bad)),
		} {
			n, err := f.writer.Import(t.Context(), seq)
			if err == nil || n != 0 {
				t.Errorf("%s: Import = %d, %v, want 0 and an error", name, n, err)
			}
			expect.NoDiff(t, list(t, f.store, collections.Query{}), before, "page after a %s", name)
		}
		if _, err := f.writer.Import(t.Context(), func(yield func(collections.Collection, error) bool) {
			yield(collections.Collection{}, broken)
		}); !errors.Is(err, broken) || err.Error() != broken.Error() {
			t.Errorf("Import = %v, want %v", err, broken)
		}
		load(t, f.writer, all)
		wantStored(t, f.store, all)
	})
}

func TestCanceledImportDoesNotChangeStore(t *testing.T) {
	t.Parallel()
	testEachDriver(t, func(t *testing.T, f fixture) {
		all := some(300)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := f.writer.Import(ctx, func(yield func(collections.Collection, error) bool) {
			for i, c := range all {
				if i == 150 {
					cancel()
				}
				if !yield(c, nil) {
					return
				}
			}
		})
		expect.ErrorIs(t, err, context.Canceled, "Import")
		wantStored(t, f.store, nil)
		load(t, f.writer, all)
		wantStored(t, f.store, all)
	})
}

func TestReadersSeeAllOrNothingOfAnImport(t *testing.T) {
	t.Parallel()
	testEachDriver(t, func(t *testing.T, f fixture) {
		all := some(900)
		load(t, f.writer, all[:300])
		half, done := make(chan struct{}), make(chan struct{})
		var readers sync.WaitGroup
		for range 4 {
			readers.Go(func() {
				for {
					page, err := f.store.List(t.Context(), collections.Query{Limit: 1})
					if err != nil || page.Total != 300 && page.Total != 900 {
						t.Errorf("List during an import = total %d, %v; want 300 or 900", page.Total, err)
						return
					}
					select {
					case <-done:
						return
					default:
					}
				}
			})
		}
		readers.Go(func() {
			defer close(half)
			if page, err := f.store.List(t.Context(), collections.Query{}); err != nil || page.Total != 300 {
				t.Errorf("List in the middle of an import = total %d, %v; want 300", page.Total, err)
			}
		})
		_, err := f.writer.Import(t.Context(), func(yield func(collections.Collection, error) bool) {
			for i, c := range all {
				if i == 600 {
					<-half // a reader is not blocked while the sequence pauses
				}
				if !yield(c, nil) {
					return
				}
			}
		})
		close(done)
		readers.Wait()
		expect.NoError(t, err)
		wantStored(t, f.store, all)
	})
}

func TestConcurrentImportsBothCount(t *testing.T) {
	t.Parallel()
	testEachDriver(t, func(t *testing.T, f fixture) {
		all := some(600)
		var imports sync.WaitGroup
		for _, part := range [][]collections.Collection{all[:400], all[200:]} {
			imports.Go(func() {
				if _, err := f.writer.Import(t.Context(), each(part)); err != nil {
					t.Errorf("Import = %v, want nil", err)
				}
			})
		}
		imports.Wait()
		wantStored(t, f.store, all)
	})
}

func TestCanceledContextsEndOperations(t *testing.T) {
	t.Parallel()
	testEachDriver(t, func(t *testing.T, f fixture) {
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		_, err := f.store.List(canceled, collections.Query{})
		expect.ErrorIs(t, err, context.Canceled, "List with a canceled context")
		expired, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		defer cancel()
		_, err = f.store.List(expired, collections.Query{})
		wantSilence(t, err, upstream.Timeout)
		expect.NoError(t, f.store.Ping(t.Context()))
	})
}

// wantStored fails the test unless the store holds exactly these collections.
func wantStored(t *testing.T, s *collections.Store, want []collections.Collection) {
	t.Helper()
	for offset := 0; offset <= len(want); offset += collections.MaxLimit {
		q := collections.Query{Limit: collections.MaxLimit, Offset: offset}
		got := list(t, s, q)
		expect.NoDiff(t, withoutState(got), model(want, q), "page from %d", offset)
	}
}
