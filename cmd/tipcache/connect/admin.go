package connect

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/tipcache/tipcache/config"
)

// maxAnswer is the largest response of an admin listener, in bytes.
const maxAnswer = 1 << 20

var errSpeaksTLS = errors.New("the admin listener speaks TLS, but http.tls is not set here: pass --config or the variables of serve, or a URL with https://")

var errSpeaksNoTLS = errors.New("the admin listener does not speak TLS (tipcache index serves plain HTTP): pass a URL with http://")

// AdminURL returns the URL of the admin listener that serve opens at an address. It returns a URL unchanged.
func AdminURL(cfg config.Config, address string) (string, error) {
	switch host, port, err := net.SplitHostPort(address); {
	case strings.Contains(address, "://"):
		return strings.TrimRight(address, "/"), nil
	case address == "none":
		return "", errors.New("admin is none, so there is no listener to query")
	case err != nil:
		return "", fmt.Errorf("admin: %q is neither HOST:PORT nor a URL", address)
	default:
		if ip := net.ParseIP(host); host == "" || ip != nil && ip.IsUnspecified() {
			host = "localhost"
		}
		scheme := "http"
		if cfg.HTTP.TLS.Cert != "" {
			scheme = "https"
		}
		return scheme + "://" + net.JoinHostPort(host, port), nil
	}
}

// QueryAdmin sends a request to an admin listener and returns the body. An empty token sends none. If the
// status is not 200, the error begins with refused or, if that is empty, with the status.
func QueryAdmin(ctx context.Context, method, target, token, refused string) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, method, target, nil)
	if err != nil {
		return nil, err
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{DialTLSContext: dialTLS}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch {
	case err == nil && resp.StatusCode == http.StatusBadRequest && strings.Contains(string(text), "HTTP request to an HTTPS server"):
		err = errSpeaksTLS
	case err == nil && resp.StatusCode != http.StatusOK:
		err = fmt.Errorf("%s: %s", cmp.Or(refused, "the admin listener answered "+resp.Status), strings.TrimSpace(string(text)))
	}
	return text, err
}

// dialTLS does not verify the certificate of this machine itself, which is for another name.
func dialTLS(ctx context.Context, network, address string) (net.Conn, error) {
	raw, err := new(net.Dialer).DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	name, _, _ := net.SplitHostPort(address)
	c := tls.Client(raw, &tls.Config{ServerName: name, InsecureSkipVerify: isThisMachine(raw)}) //nolint:gosec // see above
	if err := c.HandshakeContext(ctx); err != nil {
		if errors.As(err, new(tls.RecordHeaderError)) {
			err = errSpeaksNoTLS
		}
		return nil, errors.Join(err, raw.Close())
	}
	return c, nil
}

// isThisMachine reports whether a connection ends on the machine where it begins.
func isThisMachine(c net.Conn) bool {
	from, okFrom := c.LocalAddr().(*net.TCPAddr)
	to, okTo := c.RemoteAddr().(*net.TCPAddr)
	return okFrom && okTo && (to.IP.IsLoopback() || to.IP.Equal(from.IP))
}
