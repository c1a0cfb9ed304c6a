package devnet_test

import (
	"io"
	"net/http"
	"os"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/devnettest"
	"github.com/tipcache/tipcache/upstream/expect"
)

// client neither follows redirects nor requests compression.
var client = &http.Client{
	Transport:     &http.Transport{DisableCompression: true},
	Timeout:       20 * time.Second,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

func TestMain(m *testing.M) {
	// After a refused request net/http waits half a second for the client to read the response. goleak waits less.
	lingering := goleak.IgnoreAnyFunction("net/http.(*conn).closeWriteAndWait")
	goleak.VerifyTestMain(m, lingering, goleak.Cleanup(func(code int) {
		client.CloseIdleConnections()
		os.Exit(code)
	}))
}

func start(t testing.TB, o devnet.Options) *devnet.Devnet {
	t.Helper()
	return devnettest.Start(t, o)
}

// fetch reads a URL at a height, 0 being the latest.
func fetch(t testing.TB, target string, height int64) (status int, body string) {
	t.Helper()
	r := expect.Value(http.NewRequestWithContext(t.Context(), http.MethodGet, target, nil))(t)
	if height != 0 {
		r.Header.Set("X-Block-Height", strconv.FormatInt(height, 10))
	}
	resp := expect.Value(client.Do(r))(t)
	defer resp.Body.Close()
	raw := expect.Value(io.ReadAll(resp.Body))(t)
	return resp.StatusCode, string(raw)
}
