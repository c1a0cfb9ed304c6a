package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/tipcache/tipcache/upstream/collections/indexer"
	"github.com/tipcache/tipcache/upstream/collections/ledger"
	"github.com/tipcache/tipcache/upstream/collections/postgrestest"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestIndexCommandReportsProgress(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	// index ignores the admin address of the configuration, which belongs to serve.
	p := startProgram(t, []string{"TIPCACHE_ADMIN=0.0.0.0:1"}, indexArgs(d, sqliteURL(t), "--follow", "--admin", "127.0.0.1:0")...)
	admin := p.admin()
	defer http.DefaultClient.CloseIdleConnections()
	head := d.EVM().Height()
	var ready indexReadiness
	p.waitFor("the indexer to reach the head", func() bool {
		status, body := fetch(t, admin+"/readyz")
		if err := json.Unmarshal([]byte(body), &ready); err != nil || status != http.StatusOK || !ready.Ready {
			t.Fatalf("/readyz = %d %s, %v; want 200 and ready", status, body, err)
		}
		return ready.Index.Block == head && ready.Index.Blocks != nil && *ready.Index.Blocks == 0
	})
	if ready.Index.Chain != 1315 || ready.Index.Block != head || !ready.Index.Running {
		t.Errorf("index in /readyz = %+v, want it running on chain 1315 at block %d", ready.Index, head)
	}
	for path, want := range map[string]int{"/healthz": 200, "/metrics": 200, "/debug/pprof/": 404, "/admin/purge": 404} {
		status, _ := fetch(t, admin+path)
		expect.Equal(t, status, want, "status of %s", path)
	}
	_, metrics := fetch(t, admin+"/metrics")
	for _, name := range []string{`tipcache_indexer_state{state="unverified"}`, "tipcache_indexer_cursor_block", "go_goroutines"} {
		expect.Contains(t, metrics, "\n"+name+" ", "metrics")
	}
	address := host(admin)
	expect.Value(runCommand(t, "health", "--admin", address))(t)
	files, _ := createCertificate(t)
	_, err := runCommand(t, "health", "--config", configWithTLS(t, files), "--admin", address)
	expect.Contains(t, fmt.Sprint(err), "the admin listener does not speak TLS", "error of health")
	_, err = runCommand(t, indexArgs(d, "sqlite::memory:", "--admin", address)...)
	expect.Contains(t, fmt.Sprint(err), "admin: ", "error of index with an address in use")
}

func TestIndexCommandIsNotReadyWithoutStore(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	p := startProgram(t, nil, indexArgs(d, "postgres://nobody@127.0.0.1:1/nothing", "--follow", "--admin", "127.0.0.1:0")...)
	status, body := fetch(t, p.admin()+"/readyz")
	http.DefaultClient.CloseIdleConnections()
	expect.Response(t, "/readyz", status, body, http.StatusServiceUnavailable, `"store":"the collection store`)
}

func TestRebuildReportsProgressAndEndsWhenInterrupted(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	expect.NoError(t, d.SetFaults(devnet.Faults{EVM: devnet.Fault{Stall: true}}))
	p := startProgram(t, nil, indexArgs(d, sqliteURL(t), "--rebuild", "--admin", "127.0.0.1:0")...)
	status, body := fetch(t, p.admin()+"/readyz")
	http.DefaultClient.CloseIdleConnections()
	expect.Response(t, "/readyz", status, body, http.StatusOK, `"running":`)
	p.interrupt()
	expect.Contains(t, p.output.String(), "rebuild interrupted", "log")
}

func TestRebuildHasOneAdminListenerUntilTheEnd(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{Interval: -1})
	p := startProgram(t, nil, indexArgs(d, sqliteURL(t), "--rebuild", "--follow", "--admin", "127.0.0.1:0")...)
	admin := p.admin()
	defer http.DefaultClient.CloseIdleConnections()
	p.waitFor("the rebuilt store at the head", func() bool {
		var ready indexReadiness
		_, body := fetch(t, admin+"/readyz")
		expect.NoError(t, json.Unmarshal([]byte(body), &ready))
		return strings.Contains(p.output.String(), "rebuild swapped into the store") && ready.Index.Running && ready.Index.Block == d.EVM().Height()
	})
	p.waitFor("the metric of the cursor", func() bool {
		_, metrics := fetch(t, admin+"/metrics")
		return strings.Contains(metrics, "\ntipcache_indexer_cursor_block ")
	})
}

func TestTimeLeftFollowsFromTheBlocksDone(t *testing.T) {
	for name, tt := range map[string]struct {
		first int64
		at    ledger.Cursor
		want  string
	}{
		"from a block":   {100, ledger.Cursor{Chain: 1, Block: 199}, "10s"},
		"from block 0":   {0, ledger.Cursor{Chain: 1, Block: 149}, "10s"},
		"before a block": {0, ledger.Cursor{}, "unknown"},
		"after a start":  {200, ledger.Cursor{Chain: 1, Block: 199}, "unknown"},
		"at the head":    {0, ledger.Cursor{Chain: 1, Block: 299}, "0s"},
	} {
		s := indexer.Status{First: tt.first, Cursor: tt.at, Head: 299}
		expect.Equal(t, timeLeft(s, 10*time.Second), tt.want, "time left, %s", name)
	}
}

func TestKilledIndexerCountsEachLogOnce(t *testing.T) {
	t.Parallel()
	for name, newURL := range map[string]func(*testing.T) string{"sqlite": sqliteURL, "postgres": postgresURL} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := newURL(t)
			d := newDevnet(t, devnet.Options{Interval: -1, EVMRange: 10})
			expect.NoError(t, d.EVM().SetFault(devnet.Fault{Latency: 2 * time.Millisecond, Jitter: 6 * time.Millisecond}))
			killRepeatedly(t, d, url)
			indexAll(t, d, url)
			uninterrupted := newURL(t)
			indexAll(t, d, uninterrupted)
			expectSameRows(t, uninterrupted, url)
			expectChain(t, openURL(t, url), d)
		})
	}
}

// killRepeatedly starts the indexer eight times, and kills it each time: soon after its start, or while it reads and writes windows.
func killRepeatedly(t *testing.T, d *devnet.Devnet, url string) {
	t.Helper()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	sleepUpTo := func(most time.Duration) { time.Sleep(time.Duration(random.Int64N(int64(most)))) }
	for start := range 8 {
		d.Advance(300 + random.Int64N(100)) // more blocks than it indexes before it is killed
		enough := d.Stats().EVM + 1 + random.Int64N(40)
		p := startProgram(t, nil, indexArgs(d, url, "--follow")...)
		if start%4 == 0 {
			sleepUpTo(400 * time.Millisecond)
		} else {
			p.waitFor("requests to the execution client", func() bool { return d.Stats().EVM >= enough })
			sleepUpTo(40 * time.Millisecond)
		}
		p.expectRunning()
		p.kill()
	}
	d.Advance(100) // leaves blocks for the next run
}

// expectSameRows compares all rows that two indexers wrote.
func expectSameRows(t *testing.T, uninterrupted, url string) {
	t.Helper()
	want, got := readTables(t, uninterrupted), readTables(t, url)
	for table, rows := range want {
		if len(rows) == 0 {
			t.Errorf("%s is empty", table)
		}
	}
	expect.NoDiff(t, got, want, "rows")
}

// readTables reads the tables that an indexer writes.
func readTables(t *testing.T, url string) map[string]map[string]bool {
	t.Helper()
	driver, source := "pgx", url
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		driver, source = "sqlite", path
	}
	db := expect.Value(sql.Open(driver, source))(t)
	defer db.Close()
	tables := map[string]map[string]bool{}
	for table, columns := range map[string]string{
		"collections": "*", "index_ips": "*", "index_disputes": "*", "index_cursor": "*", "collections_state": "total",
	} {
		rows := expect.Value(db.QueryContext(t.Context(), fmt.Sprintf("SELECT %s FROM %s", columns, table)))(t) //nolint:rowserrcheck // readRows checks it
		tables[table] = readRows(t, rows)
	}
	return tables
}

func readRows(t *testing.T, rows *sql.Rows) map[string]bool {
	t.Helper()
	defer rows.Close()
	all := map[string]bool{}
	columns := expect.Value(rows.Columns())(t)
	for rows.Next() {
		values, to := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			to[i] = &values[i]
		}
		expect.NoError(t, rows.Scan(to...))
		all[fmt.Sprintf("%x", values)] = true
	}
	expect.NoError(t, rows.Err())
	return all
}

// indexAll indexes to the head in this process.
func indexAll(t *testing.T, d *devnet.Devnet, url string) {
	t.Helper()
	expect.Value(runCommand(t, indexArgs(d, url)...))(t)
}

func sqliteURL(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "c.db") }

func postgresURL(t *testing.T) string { return postgrestest.Schema(t) }
