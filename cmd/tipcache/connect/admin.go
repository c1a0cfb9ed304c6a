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

// maxAnswer bounds what is read of an admin listener's answer, in bytes.
const maxAnswer = 1 << 20

// AskAdmin reads from an admin listener, with a token unless that is "". The error of
// an answer that is not 200 begins with refused, or with the status where that is "".
func AskAdmin(ctx context.Context, client *http.Client, target, token, refused string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, target, nil)
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
		err = fmt.Errorf("%s: %s", cmp.Or(refused, "the admin listener says "+resp.Status), strings.TrimSpace(string(text)))
	}
	return text, err
}

// AskOwn reads from the admin listener of a configuration, on this machine. Its certificate is of
// another name, and what is asked is no secret.
func AskOwn(ctx context.Context, cfg config.Config, path, refused string) ([]byte, error) {
	scheme, transport := "http", &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	defer transport.CloseIdleConnections()
	if cfg.HTTP.TLS.Cert != "" {
		scheme = "https"
	}
	return AskAdmin(ctx, &http.Client{Transport: transport}, scheme+"://"+dialable(cfg.Admin)+path, "", refused)
}

// dialable turns an address that stands for every one of the host into one
// that can be asked.
func dialable(address string) string {
	host, port, err := net.SplitHostPort(address)
	if ip := net.ParseIP(host); err == nil && (host == "" || ip != nil && ip.IsUnspecified()) {
		return net.JoinHostPort("localhost", port)
	}
	return address
}
