package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/cmd/tipcache/service"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// expectChain compares a store with the simulated chain at the store's block.
func expectChain(t *testing.T, store *collections.Store, d *devnet.Devnet) {
	t.Helper()
	cursor := expect.Value(store.Mark(t.Context()))(t).Cursor
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
	store := expect.Value(drivers.Open(t.Context(), url, collections.Options{Settings: collections.Settings{Timeout: time.Minute}}))(t)
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// indexArgs returns the arguments that fill a store from d.
func indexArgs(d *devnet.Devnet, store string, more ...string) []string {
	return append([]string{"index", "--evm", d.EVMURL(), "--network", "aeneid", "--store", store}, more...)
}

func TestIndexCommandFillsStore(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: 200 * time.Millisecond})
	d.Halt()
	url := sqliteURL(t)
	command := indexArgs(d, url, "--admin", "127.0.0.1:0", "--config", writeFile(t, "keys.yaml", "chain: {auth: keys}\n")) // it serves no API, so it needs no key
	store := openURL(t, url)
	for _, maxRange := range []int64{300, 7, 10_000} {
		d.EVM().SetRange(maxRange)
		out := expect.Value(runCommand(t, command...))(t)
		expect.Contains(t, out, "has chain 1315 up to block ", "output")
		expectChain(t, store, d)
		d.Advance(20)
	}
	out := expect.Value(runCommand(t, indexArgs(d, sqliteURL(t), "--from", "99999999")...))(t)
	expect.Contains(t, out, fmt.Sprintf(" is empty: the chain has block %d, but not the first block to index", d.EVM().Height()), "output before the first block")
	// An interrupt is no failure and loses nothing.
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, append(command, "--follow"), streams{io.Discard, io.Discard}) }()
	expect.Eventually(t, "the store to reach the head", func() bool {
		m, err := store.Mark(t.Context())
		return err == nil && m.Cursor.Block == d.EVM().Height()
	})
	cancel()
	expect.NoError(t, <-ended)
	expectChain(t, store, d)
}

func TestIndexCommandReportsProblems(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	url := sqliteURL(t)
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"--evm", d.EVMURL(), "--store", url, "--network", "story"}, "no endpoint can be used: " + strings.TrimPrefix(d.EVMURL(), "http://") + ": another chain"},
		{[]string{"--evm", d.EVMURL(), "--store", "https://h/api/v4", "--network", "aeneid"}, "another server"},
		{[]string{"--evm", "ftp://user:secret@h", "--store", url}, "index.evm[0]"},
		{[]string{"--store", url, "--network", "mine"}, "\"mine\" is neither story nor aeneid"},
		{[]string{"--store", url, "--network", "1315", "--network", devnet.IPAssetRegistry}, "index.network: 2 items"},
	} {
		_, err := runCommand(t, append([]string{"index"}, test.args...)...)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("index %q: error = %v, want %q in it, and no password", test.args, err, test.want)
		}
	}
}

// indexing configures a service to fill its store in addition to the collections of the demo.
func indexing(d *devnet.Devnet, store string) func(*config.Config) {
	return func(c *config.Config) {
		c.Collections.Store = store
		c.Index.Enabled, c.Index.EVM, c.Index.Network, c.Index.From = true, []string{d.EVMURL()}, []string{"aeneid"}, d.EVMStart()+1
		c.Index.Poll = 50 * time.Millisecond
	}
}

// hourPolicy keeps entries fresh throughout a test, unless a new block makes them stale.
var hourPolicy = cache.Policy{Fresh: time.Hour, Stale: time.Hour, StaleIfError: time.Hour, Keep: time.Hour}

func TestPageIsFreshUntilStoreChanges(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: 100 * time.Millisecond})
	r := startRunning(t, d, func(c *config.Config) {
		indexing(d, sqliteURL(t))(c)
		c.Collections.Policy = hourPolicy
	})
	newest := func() string { return r.list(`{"pagination":{"limit":1}}`).body }
	first := newest()
	r.eventually("changed page", func() bool { return newest() != first })
	d.Halt()
	r.eventually("index at the head in /readyz", func() bool {
		index := r.ready().Index
		return index != nil && index.Chain == 1315 && index.Blocks != nil && *index.Blocks == 0
	})
	indexed := func() int64 { return r.ready().Index.Block }
	var got reply
	r.eventually("hit at the newest block", func() bool {
		got = r.list(`{"pagination":{"limit":1}}`)
		status := got.header.Get("Cache-Status")
		return strings.HasPrefix(status, "tipcache; hit; ttl=") && strings.Contains(status, " behind=") && got.header.Get("X-Evm-Block") == strconv.FormatInt(indexed(), 10)
	})
	expect.Equal(t, got.height(), "", "X-Block-Height of a page")
	r.eventually("explanation of a fresh page", func() bool {
		newest() // the time of the last page may have ended
		return strings.Contains(explain(t, r, "--body", `{"pagination":{"limit":1}}`, "/api/v4/collections"), " ago: the store has not changed since. ")
	})
	next := indexed() + 2
	time.AfterFunc(100*time.Millisecond, func() { d.Advance(3) })
	if got = r.list(`{"pagination":{"limit":1}}`, "X-Min-Evm-Block", strconv.FormatInt(next, 10)); got.status != http.StatusOK || indexed() < next {
		t.Errorf("page with X-Min-Evm-Block %d = %d at block %d, want 200 at that block or later: %s", next, got.status, indexed(), got.body)
	}
	r.eventually("index at the head", func() bool { return indexed() == d.EVM().Height() })
	expectChain(t, r.Store(), d)
	newest()
	c := expect.Value(r.Store().List(t.Context(), collections.Query{Limit: 1}))(t).Items[0]
	c.AssetCount++
	expect.Value(r.Store().Import(t.Context(), func(yield func(collections.Collection, error) bool) { yield(c, nil) }))(t)
	r.eventually("explanation of an outdated page", func() bool {
		return strings.Contains(explain(t, r, "--body", `{"pagination":{"limit":1}}`, "/api/v4/collections"), " ago: the store has changed since, or ")
	})
}

func TestLongResponsesOfExecutionClientLeaveMemoryForNodes(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	const memory = 64 << 20
	received := make(chan int, 1)
	evm := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		sent := 0
		for chunk := make([]byte, 64<<10); sent < memory; sent += len(chunk) {
			if _, err := w.Write(chunk); err != nil {
				break
			}
		}
		select {
		case received <- sent:
		default:
		}
	}))
	t.Cleanup(evm.Close)
	startRunning(t, d, func(c *config.Config) {
		indexing(d, sqliteURL(t))(c)
		c.Index.EVM, c.Cache.Memory = []string{evm.URL}, memory
	})
	if n := <-received; n > memory/4 {
		t.Errorf("the execution client sent %d bytes of a response, want at most an eighth of %d and what connections buffer", n, memory)
	}
}

func TestCollectionsAreServedWithoutNode(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	r := startRunning(t, d, func(c *config.Config) {
		c.Chain.Nodes, c.Chain.Comet = nil, nil
		c.Collections.Policy = hourPolicy
	})
	for _, want := range []string{"fwd=uri-miss", "hit"} {
		got := r.list(`{"pagination":{"limit":1}}`)
		got.expectStatus(t, http.StatusOK)
		expect.Contains(t, got.header.Get("Cache-Status"), want, "Cache-Status")
	}
	r.list(`{}`, "X-Min-Evm-Block", "1").expectStatus(t, http.StatusBadRequest, "no indexer fills this store")
	r.get(r.base+"/staking/params").expectStatus(t, http.StatusBadGateway, "no chain node is configured")
}

func TestImportIntoIndexedStoreNeedsForce(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	url := sqliteURL(t)
	expect.Value(runCommand(t, "import", os.DevNull, "--store", url))(t)
	expect.Value(runCommand(t, indexArgs(d, url)...))(t)
	_, err := runCommand(t, "import", os.DevNull, "--store", url)
	expect.Contains(t, fmt.Sprint(err), "--force", "error of an import into an indexed store")
	expect.Value(runCommand(t, "import", "--force", os.DevNull, "--store", url))(t)
}

func TestImportWhoseConnectionBreaksMayHaveImported(t *testing.T) {
	t.Parallel()
	direct := expect.Value(url.Parse(postgresURL(t) + "&sslmode=disable"))(t)
	expect.Value(runCommand(t, "import", os.DevNull, "--store", direct.String()))(t) // creates the schema
	broken := *direct
	broken.Host = forwardUntil(t, direct.Host, "COMMIT")
	_, err := runCommand(t, "import", os.DevNull, "--store", broken.String())
	expect.Contains(t, fmt.Sprint(err), "either everything or nothing was imported, so repeat the import", "error of an import whose COMMIT is not answered")
}

// forwardUntil starts a proxy for a server. It closes each connection that carries a word to the server.
func forwardUntil(t *testing.T, server, word string) (address string) {
	t.Helper()
	l := expect.Value(net.Listen("tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for client, err := l.Accept(); err == nil; client, err = l.Accept() {
			to, err := net.Dial("tcp", server)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() {
				defer client.Close()
				_, _ = io.Copy(client, to)
			}()
			go func() {
				defer to.Close()
				defer client.Close()
				buffer := make([]byte, 64<<10)
				for n, err := client.Read(buffer); err == nil && !bytes.Contains(buffer[:n], []byte(word)); n, err = client.Read(buffer) {
					_, _ = to.Write(buffer[:n])
				}
			}()
		}
	}()
	return l.Addr().String()
}

func TestIndexRefusesImportedCollectionsWithoutFirstBlock(t *testing.T) {
	d := newDevnet(t, devnet.Options{})
	url := sqliteURL(t)
	t.Setenv("TIPCACHE_COLLECTIONS_STORE", url) // for both commands
	file := writeFile(t, "c.jsonl", `{"collectionAddress":"0xAA00000000000000000000000000000000000002","assetCount":57,"licensesCount":0,"raisedDisputeCount":0,`+
		`"cancelledDisputeCount":0,"judgedDisputeCount":0,"resolvedDisputeCount":0,"createdAt":"2026-01-02T15:04:05Z","updatedAt":"2026-01-02T15:04:05Z"}`)
	if out, err := runCommand(t, "import", file); err != nil || !strings.Contains(out, "c.db") {
		t.Fatalf("import = %v, %q, want the store c.db", err, out)
	}
	for _, follow := range []string{"--follow=false", "--follow"} {
		_, err := runCommand(t, "index", follow, "--evm", d.EVMURL(), "--network", "aeneid")
		if !errors.Is(err, indexer.ErrImported) || !strings.Contains(err.Error(), "index.from") {
			t.Errorf("index %s = %v, want %v", follow, err, indexer.ErrImported)
		}
	}
	store := openURL(t, url)
	if m, err := store.Mark(t.Context()); err != nil || m.Cursor.Chain != 0 {
		t.Errorf("cursor = %+v, %v, want none", m.Cursor, err)
	}
	if _, err := runCommand(t, "index", "--evm", d.EVMURL(), "--network", "aeneid", "--from", strconv.FormatInt(d.EVMStart()+1, 10)); err != nil {
		t.Errorf("index --from = %v, want success", err)
	}
}

func TestRebuildReplacesDamagedStoreWhileServed(t *testing.T) {
	t.Parallel()
	for name, newURL := range map[string]func(*testing.T) string{"sqlite": sqliteURL, "postgres": postgresURL} {
		t.Run(name, func(t *testing.T) {
			d := newDevnet(t, devnet.Options{Interval: -1}) // no block arrives between the rebuild and the comparison
			url := newURL(t)
			expect.Value(runCommand(t, indexArgs(d, url)...))(t)
			store := openURL(t, url) // as a server has it open
			right := expect.Value(store.Mark(t.Context()))(t).Cursor
			wrong := right
			wrong.Block, wrong.Hash = wrong.Block+1, ledger.Hash{1}
			expect.NoError(t, store.Apply(t.Context(), right, ledger.Tally{Cursor: wrong, Changes: []ledger.Change{
				{Collection: ledger.Address{1}, Assets: 7, First: wrong.Time, Last: wrong.Time},
			}}))
			before := expect.Value(store.Mark(t.Context()))(t)
			d.Advance(20)
			expect.Value(runCommand(t, indexArgs(d, url, "--rebuild")...))(t)
			expectChain(t, store, d)
			after, err := store.Mark(t.Context())
			if err != nil || after.Generation <= before.Generation || after.Cursor.Block != d.EVM().Height() {
				t.Errorf("mark after the rebuild = %+v, %v; want a later generation than %+v, at block %d", after, err, before, d.EVM().Height())
			}
			shadow := expect.Value(store.Shadow(t.Context()))(t)
			if m, err := shadow.Mark(t.Context()); err != nil || m.Cursor.Chain != 0 {
				t.Errorf("cursor of the shadow after the rebuild = %+v, %v; want none", m.Cursor, err)
			}
			expect.NoError(t, errors.Join(shadow.Close(), store.DropShadow(t.Context())))
		})
	}
}

func TestRebuildEndsWhileAnotherProcessIndexes(t *testing.T) {
	t.Parallel()
	url := postgresURL(t)
	d := newDevnet(t, devnet.Options{Interval: -1})
	expect.Value(runCommand(t, indexArgs(d, url)...))(t)
	store := openURL(t, url)
	leading, ended := make(chan struct{}), make(chan error, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	go func() {
		ended <- store.Lead(ctx, func(ctx context.Context) error { close(leading); <-ctx.Done(); return ctx.Err() })
	}()
	<-leading
	out := &logtest.Log{}
	expect.NoError(t, run(ctx, indexArgs(d, url, "--rebuild"), streams{out, io.Discard}))
	if ctx.Err() != nil || !strings.Contains(out.String(), "is rebuilt up to block") {
		t.Errorf("output of a rebuild while another process has the lock = %q, %v; want its end", out, ctx.Err())
	}
	cancel()
	expect.ErrorIs(t, <-ended, context.Canceled, "Lead")
	expectChain(t, store, d)
}

func TestRebuildStartsAgainAfterAnUnusableOne(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	url := sqliteURL(t)
	expect.Value(runCommand(t, indexArgs(d, url)...))(t)
	store := openURL(t, url)
	shadow := expect.Value(store.Shadow(t.Context()))(t)
	ofAnotherChain := ledger.Cursor{Chain: 1, Block: 1, Hash: ledger.Hash{1}, Time: time.Unix(1, 0)}
	expect.NoError(t, errors.Join(shadow.Apply(t.Context(), ledger.Cursor{}, ledger.Tally{Cursor: ofAnotherChain}), shadow.Close()))
	_, err := runCommand(t, indexArgs(d, url, "--rebuild")...)
	expect.Contains(t, fmt.Sprint(err), "the next rebuild starts again", "error of the first rebuild")
	expect.Value(runCommand(t, indexArgs(d, url, "--rebuild")...))(t)
	expectChain(t, store, d)
}

func TestRebuildEndsAtOnceIfItsStoreIsIncomplete(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	url := sqliteURL(t)
	expect.Value(runCommand(t, indexArgs(d, url)...))(t)
	expect.Value(runCommand(t, indexArgs(d, url+".rebuild")...))(t)
	shadow := expect.Value(openURL(t, url).Shadow(t.Context()))(t)
	at := expect.Value(shadow.Mark(t.Context()))(t).Cursor.Block
	expect.NoError(t, errors.Join(shadow.MarkIncomplete(t.Context()), shadow.Close()))
	d.Advance(20)
	out, err := runCommand(t, indexArgs(d, url, "--rebuild")...)
	expect.Contains(t, fmt.Sprint(err), "the next rebuild starts again", "error of the rebuild")
	expect.Contains(t, out, fmt.Sprintf("up to block %d,", at), "output of the rebuild")
}

func TestRebuildThatIsBehindDoesNotReplaceStore(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	behind := newDevnet(t, devnet.Options{Interval: -1})
	d.Advance(20)
	url := sqliteURL(t)
	expect.Value(runCommand(t, indexArgs(d, url)...))(t)
	store := openURL(t, url)
	before := expect.Value(store.Mark(t.Context()))(t)
	for name, args := range map[string][]string{
		fmt.Sprintf("before block %d of the store: repeat the rebuild when the execution client has that block, or use another store", before.Cursor.Block): indexArgs(behind, url, "--rebuild"),
		"is empty": indexArgs(d, url, "--rebuild", "--from", strconv.FormatInt(before.Cursor.Block+100, 10)),
	} {
		_, err := runCommand(t, args...)
		expect.Contains(t, fmt.Sprint(err), name, "error of index %q", args)
		expect.Equal(t, expect.Value(store.Mark(t.Context()))(t), before, "mark after index %q", args)
		expect.NoError(t, store.DropShadow(t.Context()))
	}
	expectChain(t, store, d)
}

// A replacing is the standard error of a rebuild. It calls itself once before the store is replaced.
type replacing func()

func (r replacing) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("replacing the store")) {
		r()
	}
	return len(p), nil
}

func TestRebuildInterruptedWhileItReplacesTheStoreEndsReplaced(t *testing.T) {
	t.Parallel()
	for name, newURL := range map[string]func(*testing.T) string{"sqlite": sqliteURL, "postgres": postgresURL} {
		t.Run(name, func(t *testing.T) {
			d := newDevnet(t, devnet.Options{Interval: -1})
			url := newURL(t)
			ctx, interrupt := context.WithCancel(t.Context())
			log := &logtest.Log{}
			expect.NoError(t, run(ctx, indexArgs(d, url, "--rebuild"), streams{io.Discard, io.MultiWriter(log, replacing(interrupt))}))
			if text := log.String(); !strings.Contains(text, "rebuild swapped into the store") || strings.Contains(text, "rebuild interrupted") {
				t.Errorf("log = %s, want only a finished rebuild", text)
			}
			expectChain(t, openURL(t, url), d)
		})
	}
}

func TestFailureWhileTheStoreIsReplacedDoesNotSayThatItIsUnchanged(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	url := sqliteURL(t)
	fail := replacing(func() { _ = os.Remove(strings.TrimPrefix(url, "sqlite:") + ".rebuild") })
	err := run(t.Context(), indexArgs(d, url, "--rebuild"), streams{io.Discard, fail})
	expect.Contains(t, fmt.Sprint(err), "was replaced if the second store is empty now, by this or another rebuild", "error")
}

// A lockDriver is an empty store with a free lock, and counts how often it was acquired.
type lockDriver struct {
	collections.Ledger

	leads int
}

func (*lockDriver) Mark(context.Context) (collections.Mark, error) { return collections.Mark{}, nil }

func (d *lockDriver) Lead(ctx context.Context, work func(context.Context) error) error {
	d.leads++
	return work(ctx)
}

// A readOnlyDriver cannot be written.
type readOnlyDriver struct{ lockDriver }

func (d *readOnlyDriver) Lead(context.Context, func(context.Context) error) error {
	d.leads++
	return collections.Unusable(errors.New("the connection is read-only"))
}

func TestIndexerThatCannotAcquireLockTriesLessAndLessOften(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &readOnlyDriver{}
		store := collections.New("read-only", d, collections.Options{})
		o := indexer.Options{Network: indexer.Networks()["story"], Store: store, Follow: true}
		o.Endpoints = []string{"http://127.0.0.1:1"}
		x := expect.Value(indexer.New(o))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- service.KeepIndexing(ctx, store, x, slog.New(slog.DiscardHandler)) }()
		time.Sleep(time.Minute)
		s := x.Status()
		if s.State() != "failed" || !strings.Contains(fmt.Sprint(s.Err), "the connection is read-only") {
			t.Errorf("state = %s, %v, want failed with the reason", s.State(), s.Err)
		}
		expect.ErrorIs(t, <-ended, context.DeadlineExceeded, "KeepIndexing")
		if d.leads < 8 || d.leads > 16 {
			t.Errorf("attempts in 5 minutes = %d, want 8 to 16", d.leads)
		}
	})
}

func TestIndexerThatMakesNoProgressReleasesLockAndKeepsItsState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &lockDriver{}
		store := collections.New("lock", d, collections.Options{})
		o := indexer.Options{Network: indexer.Networks()["story"], Store: store, Follow: true}
		o.Endpoints = []string{"http://127.0.0.1:1"} // refuses connections
		x := expect.Value(indexer.New(o))(t)
		ctx, cancel := context.WithTimeout(t.Context(), 25*time.Minute)
		defer cancel()
		ended := make(chan error, 1)
		go func() { ended <- service.KeepIndexing(ctx, store, x, slog.New(slog.DiscardHandler)) }()
		for time.Sleep(time.Minute); ctx.Err() == nil; time.Sleep(time.Second) {
			if state := x.Status().State(); state != "unreachable" {
				t.Errorf("state = %s, want unreachable until the end", state)
			}
		}
		expect.ErrorIs(t, <-ended, context.DeadlineExceeded, "KeepIndexing")
		expect.Equal(t, d.leads, 3, "acquisitions of the lock in 25 minutes")
	})
}
