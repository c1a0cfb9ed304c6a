package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/pires/go-proxyproto"
	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestClientListenersAnswerHealthChecks(t *testing.T) {
	t.Parallel()
	s := startServing(t, newDevnet(t, devnet.Options{Dialect: devnet.Cosmos}), `
access: ['deny *']
rpc: {listen: 127.0.0.1:0}
collections: {store: 'sqlite::memory:', auth: closed}
http: {rate: 1/h}
`)
	s.eventually("ready", func() bool { return s.get(s.admin+"/readyz").status == http.StatusOK })
	readyz := s.get(s.admin + "/readyz").body
	for _, name := range []string{"rest", "rpc"} {
		base := "http://" + gjson.Get(readyz, "interfaces."+name).String()
		for target, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/readyz?require=node": 200, "/readyz?require=store": 503} {
			for range 2 {
				if got := s.get(base + target); got.status != want || got.header.Get("Cache-Control") != "no-store" || got.header.Get("X-Session")+got.header.Get("ETag")+got.height() != "" {
					t.Errorf("%s of %s = %d %v %q, want %d without a session", target, name, got.status, got.header, got.body, want)
				}
			}
		}
	}
	if log := s.log.String(); strings.Contains(log, `"/readyz`) || strings.Contains(log, `"/healthz`) {
		t.Errorf("log = %s, want no health check in it", log)
	}
}

func TestHealthCheckOfLayer4ProxyIsAnswered(t *testing.T) {
	t.Parallel()
	files, pool := createCertificate(t)
	s := startServing(t, newDevnet(t, devnet.Options{}), fmt.Sprintf(`
collections: {store: 'sqlite::memory:', auth: closed}
http: {proxy_protocol: required, trusted_proxies: [127.0.0.1], tls: {cert: %q, key: %q}}
`, files.Cert, files.Key))
	for _, protocol := range []string{"HTTP/1.1", "HTTP/2.0"} {
		protocols := new(http.Protocols)
		protocols.SetHTTP1(protocol == "HTTP/1.1")
		protocols.SetHTTP2(protocol == "HTTP/2.0")
		local := func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := new(net.Dialer).DialContext(ctx, network, address)
			if err == nil {
				_, err = (&proxyproto.Header{Version: 2, Command: proxyproto.LOCAL, TransportProtocol: proxyproto.UNSPEC}).WriteTo(c)
			}
			return c, err
		}
		transport := &http.Transport{DialContext: local, TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, Protocols: protocols}
		defer transport.CloseIdleConnections()
		var got string
		s.eventually("ready by "+protocol, func() bool {
			resp := expect.Value((&http.Client{Transport: transport}).Get(strings.Replace(s.base, "http:", "https:", 1) + "/readyz"))(t)
			defer resp.Body.Close()
			body, _ := io.ReadAll(resp.Body)
			got = resp.Proto + " " + string(body)
			return resp.StatusCode == http.StatusOK
		})
		expect.Equal(t, got, protocol+" ready\n", "response")
	}
}

func TestClientListenerIsUnreadyWhileDraining(t *testing.T) {
	t.Parallel()
	r := startRunning(t, newDevnet(t, devnet.Options{}), func(c *config.Config) { c.HTTP.DrainDelay = 2 * time.Second })
	is := func(status int) func() bool {
		return func() bool { return r.get(r.base+"/readyz").status == status }
	}
	r.eventually("ready", is(http.StatusOK)) // it answers with the result of the last check
	r.stop()
	r.eventually("unready", is(http.StatusServiceUnavailable))
	r.get(r.base+"/healthz").expectStatus(t, http.StatusOK, "alive")
}
