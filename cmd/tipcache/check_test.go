package main

import (
	"bufio"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	_ "modernc.org/sqlite"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/redistest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// database creates an SQLite file with SQL statements.
func database(t *testing.T, statements string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "c.db")
	db := expect.Value(sql.Open("sqlite", path))(t)
	defer db.Close()
	if _, err := db.Exec("PRAGMA journal_mode = WAL; " + statements); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestCheckRefusesOtherVersionsOfTheSchema(t *testing.T) {
	for version, want := range map[string]string{"0": "", "2": "tipcache index or tipcache import", "999": "upgrade tipcache"} {
		path := database(t, "CREATE TABLE another_program (a); PRAGMA user_version = "+version)
		out, err := checkConnect(t, "--node", "none", "--collections-auth", "none", "--store", "sqlite:"+path)
		if (err == nil) != (want == "") || !strings.Contains(out, want) {
			t.Errorf("version %s: error %v, output %s; want %q", version, err, out, want)
		}
		if err == nil {
			expect.Contains(t, out, ", collections.auth none.", "output")
		}
		if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 1 {
			t.Errorf("version %s: files next to the database = %v, want none", version, left)
		}
	}
}

func TestCheckListsUnservedMethodsOfNode(t *testing.T) {
	t.Chdir(t.TempDir())
	d := newDevnet(t, devnet.Options{})
	d.Node().Handle("/", func(w http.ResponseWriter, _ *http.Request) {
		for _, name := range []string{"abci_query?path=_", "subscribe?query=_", "data_commitment?start=_", "unsafe_flush_mempool", "new_method?x=_"} {
			_, _ = w.Write([]byte(`<a href="//node:26657/` + name + `">//node:26657/` + name + `</a></br>`))
		}
	})
	args := []string{"--node", d.Node().RESTURL(), "--comet", d.Node().CometURL()}
	const hint = "methods to add to rpc.methods if they only read: "
	if out, err := checkConnect(t, append(args, "--rpc-listen", "127.0.0.1:0")...); err != nil || !strings.Contains(out, hint+"new_method\n") {
		t.Errorf("error %v, output %s; want %snew_method", err, out, hint)
	}
	if out, err := checkConnect(t, args...); err != nil || strings.Contains(out, hint) {
		t.Errorf("without the RPC: error %v, output %s; want no hint", err, out)
	}
}

func TestServeWithoutCollectionsWritesNoFile(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	s := startServing(t, newDevnet(t, devnet.Options{}), "")
	s.eventually("ready", func() bool { return s.get(s.admin+"/readyz").status == http.StatusOK })
	expect.Equal(t, s.get(s.base+"/staking/params").status, http.StatusOK, "status of GET /staking/params")
	expect.Equal(t, s.list("{}").status, http.StatusUnauthorized, "status of a listing")
	expect.Contains(t, s.get(s.admin+"/readyz").body, `"store":"off"`, "/readyz")
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("files in the working directory = %v, want none", left)
	}
}

func TestClosedListingRefusesChainKeys(t *testing.T) {
	t.Chdir(t.TempDir())
	key, line := createKey(t, "web")
	s := startServing(t, newDevnet(t, devnet.Options{}), "collections: {auth: closed, keys: ['"+line+"']}")
	expect.Equal(t, s.status(key), http.StatusForbidden, "status of a listing")
}

// usedAddress returns an address that another server uses.
func usedAddress(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

func TestCheckReportsErrorsOfServe(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, want string
		args       []string
	}{
		{"two listeners on one address", "127.0.0.1:7000 is also the address of listen (127.0.0.1:7000)", []string{"--listen", "127.0.0.1:7000", "--admin", "127.0.0.1:7000"}},
		{"two listeners on one port, one of them on all addresses", "127.0.0.1:7000 is also the address of listen (:7000)", []string{"--listen", ":7000", "--admin", "127.0.0.1:7000"}},
		{"port out of range", `"70000" is not a port`, []string{"--listen", "127.0.0.1:70000"}},
		{"port is not a number", `"many" is not a port`, []string{"--admin", "127.0.0.1:many"}},
		{"public port in use", "address already in use", []string{"--listen", usedAddress(t), "--admin", "none"}},
		{"admin port in use", "address already in use", []string{"--listen", "127.0.0.1:0", "--admin", usedAddress(t)}},
		{"missing directory of the store", "no such file", []string{"--listen", "127.0.0.1:0", "--admin", "none", "--store", "sqlite:" + filepath.Join(t.TempDir(), "no", "c.db"), "--collections-auth", "none"}},
		{"store is a directory", "is a directory", []string{"--listen", "127.0.0.1:0", "--admin", "none", "--store", "sqlite:" + t.TempDir(), "--collections-auth", "none"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			out, err := runCommand(t, append([]string{"check", "--node", "none"}, tt.args...)...)
			if err != nil {
				out += err.Error()
			}
			expect.Contains(t, out, tt.want, "output")
			if _, err := runCommand(t, append([]string{"check", "--connect", "--node", "none"}, tt.args...)...); err == nil {
				t.Error("check --connect succeeded, want an error")
			}
		})
	}
}

func TestCheckFailsForRedisURLThatServeRefuses(t *testing.T) {
	t.Parallel()
	for url, want := range map[string]string{
		"redis://user:secret@127.0.0.1:1/prod": "FAILED: redis.url: not understood",
		"redis://user:secret@127.0.0.1:1/0":    "", // nothing listens there, which does not keep serve from starting
	} {
		args := []string{"--node", "none", "--listen", "127.0.0.1:0", "--admin", "none", "--redis", url, "--chain-id", "test-1"}
		out, err := runCommand(t, append([]string{"check"}, args...)...)
		if (err == nil) != (want == "") || !strings.Contains(out, want) {
			t.Errorf("check with %s = %s %v, want %q", url, out, err, want)
		}
		if text := fmt.Sprint(out, err); strings.Contains(text, "secret") {
			t.Errorf("check with %s = %s, want no password", url, text)
		}
	}
}

func TestCheckAcceptsPortsOfRunningServe(t *testing.T) {
	t.Parallel()
	r := startRunning(t, newDevnet(t, devnet.Options{}), nil)
	out, err := runCommand(t, "check", "--connect", "--node", "none", "--listen", r.Addresses.REST, "--admin", r.Addresses.Admin)
	if err != nil || strings.Count(out, "in use by a running tipcache") != 2 {
		t.Errorf("check = %v, want both addresses in use by a running tipcache: %s", err, out)
	}
}

func TestCheckWarnsOfStoreThatNothingFills(t *testing.T) {
	t.Parallel()
	for store, want := range map[string]string{
		sqliteURL(t):                "a new file without collections: set index.enabled",
		"sqlite:" + database(t, ""): " without collections: set index.enabled",
	} {
		args := []string{"--node", "none", "--collections-auth", "none", "--store", store}
		if out, err := runCommand(t, append([]string{"check", "--listen", "127.0.0.1:0", "--admin", "none"}, args...)...); err != nil || !strings.Contains(out, want) {
			t.Errorf("check: error %v, output %s; want %q", err, out, want)
		}
		out, err := checkConnect(t, args...)
		if err != nil || !strings.Contains(out, "WARNING: ") || !strings.Contains(out, want) {
			t.Errorf("check --connect: error %v, output %s; want a WARNING with %q", err, out, want)
		}
	}
}

func TestServerWithNothingToServeIsNotReady(t *testing.T) {
	t.Chdir(t.TempDir())
	s := serveFile(t, newDevnet(t, devnet.Options{}), listenAnywhere+"chain: {nodes: [none], comet: [none]}\n")
	s.get(s.admin+"/readyz").expectStatus(t, http.StatusServiceUnavailable, "no chain node is configured")
}

func TestCheckChangesNothingInRedis(t *testing.T) {
	t.Parallel()
	d := newDevnet(t, devnet.Options{})
	address, _ := redistest.Start(t)
	monitor := expect.Value(net.Dial("tcp", address))(t)
	defer monitor.Close()
	expect.Value(io.WriteString(monitor, "MONITOR\r\n"))(t)
	seen := bufio.NewScanner(monitor)
	seen.Scan() // +OK
	check := func(url string) (string, error) {
		return checkConnect(t, "--config", configWithRedisTimeout(t), "--node", d.NodeURL(), "--comet", d.CometURL(), "--redis", url,
			"--store", sqliteURL(t), "--collections-auth", "none", "--index", "--evm", d.EVMURL(), "--network", "aeneid")
	}
	if out, err := check("redis://" + address); err != nil || !strings.Contains(out, "ok: Redis ") {
		t.Errorf("check = %v, want success with the version of Redis:\n%s", err, out)
	}
	client := redis.NewClient(&redis.Options{Addr: address})
	defer client.Close()
	expect.NoError(t, client.Echo(t.Context(), "the end").Err())
	for harmless := []string{"hello", "client", "auth", "select", "ping", "info", "eval", "command", "hmget", "time", "subscribe"}; seen.Scan() && !strings.Contains(seen.Text(), "the end"); {
		_, command, _ := strings.Cut(seen.Text(), "] \"")
		if name, _, _ := strings.Cut(command, `"`); !slices.Contains(harmless, strings.ToLower(name)) &&
			command != `SET" "tipcache:1:check:{}" "" "XX"` && command != `PUBLISH" "tipcache:2:" ""` { // the key does not exist, and no replica listens to the channel
			t.Errorf("command to Redis = %s, want none that writes", seen.Text())
		}
	}
	expect.Equal(t, client.DBSize(t.Context()).Val(), 0, "keys in Redis after the check")
	expect.NoError(t, seen.Err())

	replica, _ := redistest.Start(t, "--replicaof", "127.0.0.1", address[strings.LastIndex(address, ":")+1:])
	if out, err := check("redis://" + replica); err == nil || !strings.Contains(out, "FAILED: it is a replica, which refuses writes") {
		t.Errorf("check of a replica = %v, want an error:\n%s", err, out)
	}
}
