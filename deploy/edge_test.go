package deploy_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/porttest"
)

// Clients read through the caches of the folder edge, and through an nginx that honors Vary, while blocks arrive. A response
// must be from the block that the request names by header or URL. Without a block it must be at most one block behind the
// newest response of the edge.
func TestEdgesDoNotMixHeights(t *testing.T) {
	wanted, err := strconv.Atoi(os.Getenv("TIPCACHE_TEST_EDGE"))
	if err != nil {
		t.Skip("skipped: TIPCACHE_TEST_EDGE is not the number of responses to read; .ci/http sets it")
	}
	origin, _ := startOrigin(t)
	edges := []*edge{
		{name: "nginx that ignores Vary", at: startNginx(t, "edge/nginx.conf", origin)},
		{name: "nginx that honors Vary", at: startNginx(t, writeFile(t, "nginx.conf", byVary), origin)},
		{name: "Varnish", at: startVarnish(t, origin)},
	}
	var readers sync.WaitGroup
	for _, e := range edges {
		for range 8 {
			readers.Go(func() { e.read(t, int64(wanted/len(edges))) })
		}
	}
	readers.Wait()
	for _, e := range edges {
		t.Logf("%s: %d responses from %d blocks, %d marked as stale, %d hits of the edge", e.name, e.answers.Load(), e.newest.Load()-e.first.Load(), e.marked.Load(), e.hits.Load())
		if blocks := e.newest.Load() - e.first.Load(); blocks < leastBlocks || e.hits.Load() == 0 {
			t.Errorf("%s: hits = %d in %d blocks, want some in at least %d", e.name, e.hits.Load(), blocks, leastBlocks)
		}
	}
}

// Clients poll through the caches of the folder edge. They must see each block once, and the edge must send their polls to
// tipcache once.
func TestEdgesShareOnePoll(t *testing.T) {
	if os.Getenv("TIPCACHE_TEST_EDGE") == "" {
		t.Skip("skipped: TIPCACHE_TEST_EDGE is not set; .ci/http sets it")
	}
	const followers = 60
	for name, start := range map[string]func(origin string) string{
		"nginx": func(origin string) string { return startNginx(t, "edge/nginx.conf", origin) }, "Varnish": func(origin string) string { return startVarnish(t, origin) },
	} {
		origin, admin := startOrigin(t)
		at := start(origin)
		var all sync.WaitGroup
		for range followers {
			all.Go(func() { followBlocks(t, at+polledPath) })
		}
		all.Wait()
		polls := pollsOf(t, admin)
		t.Logf("%s: %.0f polls for %d followers of %d blocks", name, polls, followers, leastBlocks)
		if polls > followers*leastBlocks/4 {
			t.Errorf("%s: polls of tipcache = %.0f, want at most %d", name, polls, followers*leastBlocks/4)
		}
	}
}

// A client follows a path by /live, and leaves. It sends no Accept and, like curl, no Accept-Encoding. The edge must pass the
// events, and must leave, too.
func TestEdgesPassStreams(t *testing.T) {
	if os.Getenv("TIPCACHE_TEST_EDGE") == "" {
		t.Skip("skipped: TIPCACHE_TEST_EDGE is not set; .ci/http sets it")
	}
	origin, admin := startOrigin(t)
	client := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	for name, at := range map[string]string{"nginx": startNginx(t, "edge/nginx.conf", origin), "Varnish": startVarnish(t, origin)} {
		t.Run(name, func(t *testing.T) {
			ctx, leave := context.WithTimeout(t.Context(), time.Minute)
			defer leave()
			r := expect.Value(http.NewRequestWithContext(ctx, http.MethodGet, at+"/live?path="+polledPath, http.NoBody))(t)
			resp, err := client.Do(r)
			if err != nil {
				t.Fatalf("stream: %v", err)
			}
			defer resp.Body.Close()
			lines := bufio.NewScanner(resp.Body)
			for events := 0; events < 2; {
				if !lines.Scan() {
					t.Fatalf("events = %d, want 2: %v", events, lines.Err())
				}
				if strings.HasPrefix(lines.Text(), "data:") {
					events++
				}
			}
			leave()
			expect.NoError(t, rig.Eventually(t.Context(), func(ctx context.Context) error {
				metrics, err := rig.Get(ctx, "http://"+admin+"/metrics")
				if open := rig.ParseSamples(metrics).Sum("tipcache_proxy_streams"); err == nil && open > 0 {
					return fmt.Errorf("open streams after the client left = %.0f, want 0", open)
				}
				return err
			}))
		})
	}
}

// polledPath has a response that every block changes.
const polledPath = "/distribution/delegators/0xa82f5d1f204b382d90ca549b695aedb7fde14817/rewards"

// followBlocks polls a URL until its response has changed leastBlocks times.
func followBlocks(t *testing.T, url string) {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	next, newest := "?since=0", int64(0)
	for changes := 0; changes <= leastBlocks && t.Context().Err() == nil; {
		h, err := get(t.Context(), client, url+next, "")
		if err != nil {
			t.Error(err)
			return
		}
		after, _, _ := strings.Cut(strings.TrimPrefix(h.Get("Link"), "<"), ">")
		height, _ := strconv.ParseInt(h.Get("X-Block-Height"), 10, 64)
		if height < newest || after == next || after == "" {
			t.Errorf("poll %s = block %d after %d, with next URL %q; want a later block and another URL", next, height, newest, after)
			return
		}
		if height > newest {
			changes++
		}
		next, newest = after, height
	}
}

// pollsOf returns the number of polls that a tipcache has answered.
func pollsOf(t *testing.T, admin string) float64 {
	t.Helper()
	metrics := expect.Value(rig.Get(t.Context(), "http://"+admin+"/metrics"))(t)
	return rig.ParseSamples(metrics).Sum("tipcache_proxy_requests_total", `route="poll"`)
}

// leastBlocks is how many blocks must arrive during a test.
const leastBlocks = 4

// byVary is a usual nginx configuration: it honors Vary, and the key is the URL.
const byVary = `
worker_processes 1;
pid /run/tipcache-edge.pid;
error_log stderr warn;
events {}
http {
  access_log off;
  proxy_cache_path /var/cache/tipcache-edge keys_zone=edge:10m;
  upstream tipcache { server 127.0.0.1:8080; keepalive 64; }
  proxy_http_version 1.1;
  proxy_set_header Connection "";
  server {
    listen 127.0.0.1:8443;
    location / { proxy_cache edge; proxy_pass http://tipcache; add_header X-Cache $upstream_cache_status; }
  }
}`

// An edge is a cache in front of tipcache, with figures of its responses.
type edge struct {
	name, at string

	answers, hits, marked atomic.Int64
	first, newest         atomic.Int64 // blocks
	etags                 sync.Map     // by path and block
}

// edgePaths belong to the classes live and params.
var edgePaths = []string{"/staking/pool", "/staking/params", "/mint/params?x=1", "/distribution/params"}

// read sends requests until the edge has given wanted responses and leastBlocks have arrived.
func (e *edge) read(t *testing.T, wanted int64) {
	client := &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxConnsPerHost: 1}}
	defer client.CloseIdleConnections()
	for !t.Failed() && t.Context().Err() == nil && (e.answers.Load() < wanted || e.newest.Load()-e.first.Load() < leastBlocks) {
		path, newest := edgePaths[rand.IntN(len(edgePaths))], e.newest.Load()
		var pinned int64
		target, header := path, ""
		if kind := rand.IntN(4); kind >= 2 && newest > 0 {
			pinned = max(1, newest-rand.Int64N(3))
			if header = strconv.FormatInt(pinned, 10); kind == 3 {
				target, header = target+map[bool]string{true: "&", false: "?"}[strings.Contains(target, "?")]+"x-block-height="+header, ""
			}
		}
		h, err := get(t.Context(), client, e.at+target, header)
		if err != nil {
			t.Errorf("%s: %s: %v", e.name, target, err)
			return
		}
		e.check(t, target, path, h, pinned, newest)
	}
}

// check checks the header of a response. newest is the newest block before its request.
func (e *edge) check(t *testing.T, target, path string, h http.Header, pinned, newest int64) {
	e.answers.Add(1)
	if h.Get("X-Cache") == "HIT" || strings.Contains(h.Get("X-Varnish"), " ") {
		e.hits.Add(1)
	}
	height, err := strconv.ParseInt(h.Get("X-Block-Height"), 10, 64)
	switch marked := strings.Contains(h.Get("Cache-Status"), "stale-"); {
	case err != nil || pinned > 0 && height != pinned:
		t.Errorf("%s: block of %s at %d = %q, want the requested one: %v", e.name, target, pinned, h.Get("X-Block-Height"), h)
	case marked:
		e.marked.Add(1)
	case pinned == 0 && height < newest-1:
		t.Errorf("%s: block of %s = %d, want at least %d: %v", e.name, target, height, newest-1, h)
	}
	etag, _, _ := strings.Cut(strings.TrimPrefix(h.Get("Etag"), "W/"), "-gzip")
	if was, known := e.etags.LoadOrStore(fmt.Sprint(path, " at ", height), strings.Trim(etag, `"`)); known && was != strings.Trim(etag, `"`) {
		t.Errorf("%s: ETag of %s at block %d = %s, want %s as before", e.name, path, height, etag, was)
	}
	if pinned > 0 {
		return
	}
	e.first.CompareAndSwap(0, height)
	for old := e.newest.Load(); old < height && !e.newest.CompareAndSwap(old, height); old = e.newest.Load() {
	}
}

func get(ctx context.Context, client *http.Client, target, height string) (http.Header, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, target, http.NoBody)
	if err != nil {
		return nil, err
	}
	if height != "" {
		r.Header.Set("X-Block-Height", height)
	}
	resp, err := client.Do(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusMultipleChoices {
		err = fmt.Errorf("%s: %s", resp.Status, body)
	}
	return resp.Header, err
}

// startOrigin starts tipcache in front of a simulated chain, and returns its addresses.
func startOrigin(t *testing.T) (public, admin string) {
	t.Helper()
	var at [7]string
	for i := range at {
		at[i] = porttest.Address(t)
	}
	start(t, program, "devnet", "--block-time", "3s", "--node-listen", at[0], "--comet-listen", at[1], "--evm-listen", at[2], "--metadata-listen", at[3], "--control-listen", at[4])
	waitFor(t, "http://"+at[0]+"/staking/pool")
	start(t, program, "serve", "--listen", at[5], "--admin", at[6], "--store", "sqlite::memory:", "--collections-auth", "none", "--node", "http://"+at[0], "--comet", "http://"+at[1])
	waitFor(t, "http://"+at[6]+"/readyz")
	return at[5], at[6]
}

// startNginx starts nginx with a configuration in front of tipcache.
func startNginx(t *testing.T, config, origin string) (url string) {
	t.Helper()
	requireProgram(t, "nginx")
	dir, at := t.TempDir(), porttest.Address(t)
	file := replaceIn(t, config, "127.0.0.1:8080", origin, "127.0.0.1:8443", at, "/run/tipcache-edge.pid", filepath.Join(dir, "pid"), "/var/cache/tipcache-edge", filepath.Join(dir, "cache"))
	global := "daemon off; master_process off;" // workers of a master that runs as root could not write here
	start(t, "nginx", "-p", dir, "-e", "stderr", "-c", file, "-g", global)
	waitFor(t, "http://"+at+"/staking/pool")
	return "http://" + at
}

// startVarnish starts Varnish in front of tipcache.
func startVarnish(t *testing.T, origin string) (url string) {
	t.Helper()
	requireProgram(t, "varnishd")
	host, port, err := net.SplitHostPort(origin)
	expect.NoError(t, err)
	at := porttest.Address(t)
	file := replaceIn(t, "edge/varnish.vcl", `.host = "127.0.0.1"; .port = "8080"`, fmt.Sprintf(`.host = %q; .port = %q`, host, port))
	args := []string{"-F", "-j", "none", "-n", t.TempDir(), "-a", at, "-f", file, "-s", "malloc,64m"}
	text := expect.Value(os.ReadFile(file))(t)
	for _, set := range regexp.MustCompile(`-p (\S+=\S+)`).FindAllStringSubmatch(string(text), -1) { // the parameters in its header
		args = append(args, "-p", set[1])
	}
	start(t, "varnishd", args...)
	waitFor(t, "http://"+at+"/staking/pool")
	return "http://" + at
}

func requireProgram(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		t.Skipf("skipped: %s is not installed", name)
	}
}

// replaceIn returns a copy of a file in which pairs of old and new texts are replaced.
func replaceIn(t *testing.T, file string, pairs ...string) string {
	t.Helper()
	text := expect.Value(os.ReadFile(file))(t)
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(string(text), pairs[i]) {
			t.Fatalf("%s lacks %s", file, pairs[i])
		}
	}
	return writeFile(t, filepath.Base(file), strings.NewReplacer(pairs...).Replace(string(text)))
}

func writeFile(t *testing.T, name, text string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), name)
	expect.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	return file
}

// start starts a program, and stops it when the test ends.
func start(t *testing.T, name string, args ...string) {
	t.Helper()
	var output strings.Builder
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &output, &output
	expect.NoError(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		_ = cmd.Wait()
		if text := output.String(); t.Failed() {
			t.Logf("%s: %s", name, text[max(0, len(text)-2000):])
		}
	})
}

// waitFor waits until a server responds with a success.
func waitFor(t *testing.T, url string) {
	t.Helper()
	expect.NoError(t, rig.Eventually(t.Context(), rig.Answers(url)))
}
