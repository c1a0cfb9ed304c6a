package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/collections/postgrestest"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// expectChain compares a store with what the simulated chain knows of the block
// that the store is at.
func expectChain(t *testing.T, store *collections.Store, d *devnet.Devnet) {
	t.Helper()
	cursor := expect.Value(store.Cursor(t.Context()))(t)
	page := expect.Value(store.List(t.Context(), collections.Query{Limit: collections.MaxLimit}))(t)
	want := map[string]collections.Collection{}
	for c := range d.CollectionsAt(cursor.Block) {
		c.Address, c.CreatedAt, c.UpdatedAt = strings.ToLower(c.Address), c.CreatedAt.UTC(), c.UpdatedAt.UTC()
		want[c.Address] = c
	}
	got := map[string]collections.Collection{}
	for _, c := range page.Items {
		c.Address = strings.ToLower(c.Address)
		got[c.Address] = c
	}
	expect.NoDiff(t, got, want, "collections at block %d", cursor.Block)
}

func openURL(t *testing.T, url string) *collections.Store {
	t.Helper()
	store := expect.Value(drivers.Open(t.Context(), url, collections.Options{Timeout: time.Minute}))(t)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

func TestIndexCommandFillsStore(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: 200 * time.Millisecond})
	d.Halt()
	url := "sqlite:" + filepath.Join(t.TempDir(), "c.db")
	command := []string{"index", "--admin", "127.0.0.1:0", "--evm", d.EVMURL(), "--store", url, "--network", "aeneid"}
	store := openURL(t, url)
	for _, most := range []int64{300, 7, 10_000} {
		d.EVM().SetRange(most)
		var out bytes.Buffer
		expect.NoError(t, run(t.Context(), command, streams{&out, io.Discard}))
		expect.Contains(t, out.String(), "has chain 1315 up to block ", "output")
		expectChain(t, store, d)
		d.Advance(20)
	}
	// Interrupted, it has lost nothing and is no failure.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, append(command, "--follow"), streams{io.Discard, io.Discard}) }()
	(&running{t: t}).eventually("at the head", func() bool {
		cursor, err := store.Cursor(t.Context())
		return err == nil && cursor.Block == d.EVM().Height()
	})
	cancel()
	expect.NoError(t, <-ended)
	expectChain(t, store, d)
}

func TestIndexCommandReportsProblems(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	url := "sqlite:" + filepath.Join(t.TempDir(), "c.db")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--evm", d.EVMURL(), "--store", url, "--network", "story"}, "another chain"},
		{[]string{"--evm", d.EVMURL(), "--store", "https://h/api/v4", "--network", "aeneid"}, "another server"},
		{[]string{"--evm", "ftp://user:secret@h", "--store", url}, "index.evm[0]"},
		{[]string{"--store", url, "--network", "mine"}, "\"mine\" is neither story nor aeneid"},
		{[]string{"--store", url, "--network", "1315", "--network", devnet.IPAssetRegistry}, "index.network: 2 items"},
	} {
		err := run(t.Context(), append([]string{"index"}, test.args...), streams{io.Discard, io.Discard})
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", test.args, err)
		}
	}
}

// indexing makes a service fill its store on top of what the demo imports.
func indexing(d *devnet.Devnet, store string) func(*config.Config) {
	return func(c *config.Config) {
		c.Collections.Store = store
		c.Index.Enabled, c.Index.EVM, c.Index.Network, c.Index.From = true, []string{d.EVMURL()}, []string{"aeneid"}, d.EVMStart()+1
		c.Index.Poll = 50 * time.Millisecond
	}
}

func TestPageIsFreshUntilStoreChanges(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: 100 * time.Millisecond})
	r := startRunning(t, d, func(c *config.Config) {
		indexing(d, "sqlite:"+filepath.Join(t.TempDir(), "c.db"))(c)
		c.Collections.Policy = cache.Policy{Fresh: time.Hour, Stale: time.Hour, StaleIfError: time.Hour, Keep: time.Hour} // by seconds it would be fresh to the end
	})
	newest := func() string { return r.list(`{"pagination":{"limit":1}}`).body }
	first := newest()
	r.eventually("shown what has changed", func() bool { return newest() != first })
	d.Halt()
	r.eventually("reported in /readyz", func() bool {
		index := r.ready().Index
		return index != nil && index.Chain == 1315 && index.Blocks != nil && *index.Blocks == 0
	})
	counted := func() int64 { return r.ready().Index.Block }
	var got reply
	r.eventually("a hit at the newest block", func() bool {
		got = r.list(`{"pagination":{"limit":1}}`)
		status := got.header.Get("Cache-Status")
		return strings.HasPrefix(status, "tipcache; hit; ttl=") && strings.Contains(status, " behind=") && got.header.Get("X-Evm-Block") == strconv.FormatInt(counted(), 10)
	})
	expect.Equal(t, got.height(), "", "X-Block-Height of a page")
	next := counted() + 2
	time.AfterFunc(100*time.Millisecond, func() { d.Advance(3) })
	if got = r.list(`{"pagination":{"limit":1}}`, "X-Min-Evm-Block", strconv.FormatInt(next, 10)); got.status != http.StatusOK || counted() < next {
		t.Errorf("waiting for block %d: status %d, counted are %d: %s", next, got.status, counted(), got.body)
	}
	r.eventually("all blocks are counted", func() bool { return counted() == d.EVM().Height() })
	expectChain(t, r.Store(), d)
}

func TestCollectionsAreServedWithoutNode(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	r := startRunning(t, d, func(c *config.Config) {
		c.Chain.Nodes, c.Chain.Comet = nil, nil
		c.Collections.Policy = cache.Policy{Fresh: time.Hour, Stale: time.Hour, StaleIfError: time.Hour, Keep: time.Hour} // a busy machine may take seconds between two requests
	})
	for _, want := range []string{"fwd=uri-miss", "hit"} {
		if got := r.list(`{"pagination":{"limit":1}}`); got.status != http.StatusOK || !strings.Contains(got.header.Get("Cache-Status"), want) {
			t.Errorf("status %d, %s: %s", got.status, got.header.Get("Cache-Status"), got.body)
		}
	}
	r.list(`{}`, "X-Min-Evm-Block", "1").wants(t, http.StatusBadRequest, "no indexer fills this store")
	r.get(r.base+"/staking/params").wants(t, http.StatusBadGateway, "no chain node is configured")
}

func TestImportIntoIndexedStoreNeedsForce(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	dir := t.TempDir()
	url, file := "sqlite:"+filepath.Join(dir, "c.db"), filepath.Join(dir, "c.jsonl")
	expect.NoError(t, os.WriteFile(file, nil, 0o600))
	if _, err := runs(t, "import", file, "--store", url); err != nil {
		t.Errorf("into a store that nothing was indexed into: %v", err)
	}
	expect.Value(runs(t, "index", "--evm", d.EVMURL(), "--store", url, "--network", "aeneid"))(t)
	if _, err := runs(t, "import", file, "--store", url); err == nil || !strings.Contains(err.Error(), "--force") {
		t.Errorf("into an indexed store: %v", err)
	}
	if _, err := runs(t, "import", "--force", file, "--store", url); err != nil {
		t.Errorf("by force: %v", err)
	}
}

func TestIndexRefusesImportedCollectionsWithoutFirstBlock(t *testing.T) {
	d := newDevnet(t, devnet.Options{})
	dir := t.TempDir()
	url, file := "sqlite:"+filepath.Join(dir, "c.db"), filepath.Join(dir, "c.jsonl")
	t.Setenv("TIPCACHE_COLLECTIONS_STORE", url) // for both commands
	expect.NoError(t, os.WriteFile(file, []byte(`{"collectionAddress":"0xAA00000000000000000000000000000000000002","assetCount":57,"licensesCount":0,"raisedDisputeCount":0,`+
		`"cancelledDisputeCount":0,"judgedDisputeCount":0,"resolvedDisputeCount":0,"createdAt":"2026-01-02T15:04:05Z","updatedAt":"2026-01-02T15:04:05Z"}`), 0o600))
	if out, err := runs(t, "import", file); err != nil || !strings.Contains(out, "c.db") {
		t.Fatalf("import = %v, %q, want the store c.db", err, out)
	}
	for _, follow := range []string{"--follow=false", "--follow"} {
		_, err := runs(t, "index", follow, "--evm", d.EVMURL(), "--network", "aeneid")
		if !errors.Is(err, indexer.ErrImported) || !strings.Contains(err.Error(), "index.from") {
			t.Errorf("index %s = %v, want %v", follow, err, indexer.ErrImported)
		}
	}
	store := openURL(t, url)
	if cursor, err := store.Cursor(t.Context()); err != nil || cursor.Chain != 0 {
		t.Errorf("cursor = %+v, %v, want none", cursor, err)
	}
	if _, err := runs(t, "index", "--evm", d.EVMURL(), "--network", "aeneid", "--from", strconv.FormatInt(d.EVMStart()+1, 10)); err != nil {
		t.Errorf("index --from = %v, want success", err)
	}
}

func TestRebuildReplacesDamagedStoreWhileServed(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]func(*testing.T) string{
		"sqlite":   func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "c.db") },
		"postgres": func(t *testing.T) string { return postgrestest.Schema(t) },
	} {
		t.Run(name, func(t *testing.T) {
			d := newDevnet(t, devnet.Options{Interval: -1}) // no block comes between the rebuild and the comparison
			at := url(t)
			command := []string{"index", "--evm", d.EVMURL(), "--store", at, "--network", "aeneid"}
			expect.Value(runs(t, command...))(t)
			store := openURL(t, at) // as a server has it open
			ruined := expect.Value(store.Cursor(t.Context()))(t)
			wrong := ruined
			wrong.Block, wrong.Hash = wrong.Block+1, ledger.Hash{1}
			if err := store.Apply(t.Context(), ruined, ledger.Tally{Cursor: wrong, Changes: []ledger.Change{
				{Collection: ledger.Address{1}, Assets: 7, First: wrong.Time, Last: wrong.Time},
			}}); err != nil {
				t.Fatal(err)
			}
			before := expect.Value(store.Mark(t.Context()))(t)
			d.Advance(20)
			out, err := runs(t, append(command, "--rebuild")...)
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			expectChain(t, store, d)
			after, err := store.Mark(t.Context())
			if err != nil || after.Generation <= before.Generation || after.Cursor.Block != d.EVM().Height() {
				t.Errorf("before %+v, after %+v, %v", before, after, err)
			}
			again := expect.Value(store.Shadow(t.Context()))(t)
			if left, err := again.Cursor(t.Context()); err != nil || left.Chain != 0 {
				t.Errorf("what was counted beside the store is still there: %+v, %v", left, err)
			}
			expect.NoError(t, errors.Join(again.Close(), store.DropShadow(t.Context())))
		})
	}
}

func TestRebuildStartsAgainAfterAnUnusableOne(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	at := sqliteURL(t)
	command := []string{"index", "--evm", d.EVMURL(), "--store", at, "--network", "aeneid"}
	expect.Value(runs(t, command...))(t)
	store := openURL(t, at)
	shadow := expect.Value(store.Shadow(t.Context()))(t)
	ofAnotherChain := ledger.Cursor{Chain: 1, Block: 1, Hash: ledger.Hash{1}, Time: time.Unix(1, 0)}
	expect.NoError(t, errors.Join(shadow.Apply(t.Context(), ledger.Cursor{}, ledger.Tally{Cursor: ofAnotherChain}), shadow.Close()))
	_, err := runs(t, append(command, "--rebuild")...)
	expect.Contains(t, fmt.Sprint(err), "the next rebuild starts again", "error of the first rebuild")
	if out, err := runs(t, append(command, "--rebuild")...); err != nil {
		t.Errorf("second rebuild = %v, want success: %s", err, out)
	}
	expectChain(t, store, d)
}
