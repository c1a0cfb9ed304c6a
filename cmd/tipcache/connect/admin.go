package connect

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/tipcache/tipcache/config"
)

// maxAnswer is the largest response of an admin listener, in bytes.
const maxAnswer = 1 << 20

// QueryAdmin sends a request to an admin listener and returns the body. An empty token sends none. If the
// status is not 200, the error begins with refused or, if that is empty, with the status.
func QueryAdmin(ctx context.Context, client *http.Client, method, target, token, refused string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, target, nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", cmp.Or(refused, "the admin listener answered "+resp.Status), strings.TrimSpace(string(text)))
	}
	return text, err
}

// QueryLocal sends a GET to the admin listener of cfg on this machine. It does not verify the certificate,
// which is for another name, and sends no secret.
func QueryLocal(ctx context.Context, cfg config.Config, path, refused string) ([]byte, error) {
	scheme, transport := "http", &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	if cfg.HTTP.TLS.Cert != "" {
		scheme = "https"
	}
	return QueryAdmin(ctx, &http.Client{Transport: transport}, http.MethodGet, scheme+"://"+dialable(cfg.Admin)+path, "", refused)
}

// dialable replaces an unspecified host by localhost.
func dialable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("localhost", port)
	}
	return address
}
