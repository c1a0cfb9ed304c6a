package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
	"github.com/tidwall/gjson"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// dialThroughProxy returns a dialer whose connections begin with the header of a layer-4 proxy for a client.
func dialThroughProxy(client string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := new(net.Dialer).DialContext(ctx, network, address)
		if err == nil {
			from := &net.TCPAddr{IP: net.ParseIP(client), Port: 4711}
			_, err = proxyproto.HeaderProxyFromAddrs(2, from, from).WriteTo(c)
		}
		return c, err
	}
}

func TestProxyHeaderNamesClientOnEveryListener(t *testing.T) {
	t.Parallel()
	files, pool := createCertificate(t)
	trusted := &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	s := startServing(t, newDevnet(t, devnet.Options{Dialect: devnet.Cosmos}), fmt.Sprintf(`
rpc: {listen: 127.0.0.1:0}
grpc: {listen: 127.0.0.1:0}
collections: {store: 'sqlite::memory:', auth: closed}
http: {rate: 2/h burst 2, proxy_protocol: required, trusted_proxies: [127.0.0.1], tls: {cert: %q, key: %q}}
`, files.Cert, files.Key))
	admin := &http.Transport{TLSClientConfig: trusted.Clone()}
	defer admin.CloseIdleConnections()
	resp := expect.Value((&http.Client{Transport: admin}).Get(strings.Replace(s.admin, "http:", "https:", 1) + "/readyz"))(t) // without the header
	readyz, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	addresses := gjson.GetBytes(readyz, "interfaces")
	http1, http2 := new(http.Protocols), new(http.Protocols)
	http1.SetHTTP1(true)
	http2.SetHTTP2(true)
	byHTTP := func(url string, protocols *http.Protocols) func(client string) bool {
		return func(client string) bool {
			transport := &http.Transport{DialContext: dialThroughProxy(client), TLSClientConfig: trusted.Clone(), Protocols: protocols}
			defer transport.CloseIdleConnections()
			resp := expect.Value((&http.Client{Transport: transport}).Get(url))(t)
			_ = resp.Body.Close()
			return resp.StatusCode != http.StatusTooManyRequests
		}
	}
	rest := "https://" + addresses.Get("rest").String() + "/cosmos/bank/v1beta1/params"
	for i, admitted := range []func(client string) bool{
		byHTTP(rest, http1), byHTTP(rest, http2), byHTTP("https://"+addresses.Get("rpc").String()+"/health", http1),
		func(client string) bool {
			dial := grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
				return dialThroughProxy(client)(ctx, "tcp", address)
			})
			c, err := grpc.NewClient("passthrough:"+addresses.Get("grpc").String(), dial, grpc.WithTransportCredentials(credentials.NewTLS(trusted)))
			expect.NoError(t, err)
			defer c.Close()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			var message, reply []byte
			err = c.Invoke(ctx, "/cosmos.staking.v1beta1.Query/Params", &message, &reply, grpc.ForceCodecV2(node.Bytes{}))
			if code := status.Code(err); code != codes.OK && code != codes.ResourceExhausted {
				t.Fatal(err)
			}
			return err == nil
		},
	} {
		one, other := fmt.Sprintf("192.0.2.%d", 2*i), fmt.Sprintf("192.0.2.%d", 2*i+1)
		got := []bool{admitted(one), admitted(one), admitted(one), admitted(other)}
		expect.NoDiff(t, got, []bool{true, true, false, true}, "admitted at listener %d: three requests of one client, one of another", i)
	}
	if _, err := getTLS(t, rest, trusted.RootCAs); err == nil {
		t.Error("request without a proxy header got a response, want its connection closed")
	}
}

// dashboardMounts returns the mounts that the documentation has for the staking dashboard, with another fallback.
func dashboardMounts(t *testing.T, fallback string) []proxy.Mount {
	t.Helper()
	page := expect.Value(os.ReadFile("../../deploy/docs/networks.md"))(t)
	_, section, _ := strings.Cut(string(page), "## Base paths")
	_, block, _ := strings.Cut(section, "```yaml\n")
	text, _, found := strings.Cut(block, "```")
	file := writeFile(t, "tipcache.yaml", strings.Replace(text, "http://story-staking-api:8080", fallback, 1))
	if !found || !strings.Contains(text, "http://story-staking-api:8080") {
		t.Fatalf("base paths in the documentation = %q, want ones with a fallback", text)
	}
	return expect.Value(config.Load(config.Sources{File: file}))(t).HTTP.Mounts
}

func TestDashboardNeedsOneURL(t *testing.T) {
	t.Parallel()
	var down atomic.Bool
	indexer := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if down.Load() {
			panic(http.ErrAbortHandler)
		}
		fmt.Fprintf(w, "indexer %s", r.URL.Path)
	}))
	defer indexer.Close()
	d := newDevnet(t, devnet.Options{Interval: -1})
	r := startRunning(t, d, func(c *config.Config) {
		c.HTTP.Mounts = dashboardMounts(t, indexer.URL)
	})
	for path, want := range map[string]string{
		"/api/network_status":                  "indexer /api/network_status",
		"/api/staking/params":                  "indexer /api/staking/params", // with period_type 0, which a node omits and the dashboard needs
		"/api/staking/validators/" + validator: "indexer /api/staking/validators/" + validator,
		"/api/staking/pool":                    r.get(d.NodeURL() + "/staking/pool").body,
		"/api/staking/validators/" + validator + "/delegators/" + delegator + "/period_delegations": r.get(d.NodeURL() + "/staking/validators/" + validator + "/delegators/" + delegator + "/period_delegations").body,
	} {
		got := r.get(r.base + path)
		got.expectStatus(t, http.StatusOK)
		expect.Equal(t, got.body, want, "body of %s", path)
	}
	if got := r.get(r.base + "/staking/validators/" + validator); got.height() == "" || strings.Contains(got.body, "indexer") {
		t.Errorf("validator below the root = %d %s, want the documented response", got.status, got.body)
	}
	r.list(`{"pagination":{"limit":3}}`).expectStatus(t, http.StatusOK)
	down.Store(true) // another test could get the port of a closed server
	name := "fallback " + host(indexer.URL)
	r.eventually("degraded fallback", func() bool {
		r.get(r.base+"/api/network_status").expectStatus(t, http.StatusBadGateway)
		return r.ready().Degraded[name] != ""
	})
	r.get(r.admin+"/readyz").expectStatus(t, http.StatusOK)
}

func TestCheckReportsMounts(t *testing.T) {
	file := writeFile(t, "tipcache.yaml", "http:\n  mounts:\n    - path: /\n    - {path: /api, shape: node, fallback: 'http://indexer:8080'}\n")
	out := expect.Value(runCommand(t, "check", "--config", file))(t)
	expect.Contains(t, out, "Base path /: shape documented, fallback none.\nBase path /api: shape node, fallback http://indexer:8080.\n", "output of check")
}
