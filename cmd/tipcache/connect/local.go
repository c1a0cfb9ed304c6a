package connect

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy/conn"
)

// localProbes check what serve needs on this machine: addresses of listeners, certificate and store file. An expired
// certificate fails, although serve starts with it. canWait says that an address in use is only a warning, because it may
// be free when serve starts.
func localProbes(cfg config.Config, canWait bool) []probe {
	listen := func(part, address string) probe {
		return probe{part: part, address: address, find: func(ctx context.Context) (string, error) {
			found, err := findAddress(ctx, cfg, address)
			if canWait && errors.Is(err, syscall.EADDRINUSE) {
				err = warning(err.Error())
			}
			return found, err
		}}
	}
	probes := []probe{listen("listen", cfg.Listen)}
	if cfg.Admin != "none" {
		probes = append(probes, listen("admin", cfg.Admin))
	}
	for _, p := range []struct{ part, address, serves string }{
		{"rpc.listen", cfg.RPC.Listen, "the CometBFT RPC of the nodes"}, {"grpc.listen", cfg.GRPC.Listen, "the gRPC of the nodes"},
	} {
		switch {
		case p.address != "":
			probes = append(probes, listen(p.part, p.address))
		case len(cfg.Chain.Nodes) > 0:
			probes = append(probes, probe{part: p.part, off: p.serves + " is not served"})
		}
	}
	if files := cfg.HTTP.TLS; files.Cert != "" {
		find := func(context.Context) (string, error) { return findCertificate(files) }
		probes = append(probes, probe{part: "certificate", address: files.Cert, find: find})
	}
	if strings.HasPrefix(cfg.Collections.Store, "sqlite:") && cfg.NeedsStore() {
		probes = append(probes, storeProbe(cfg))
	}
	return probes
}

// findAddress opens and closes a listener. An address in use by a running tipcache is not an error, because
// a configuration may be checked before a reload.
func findAddress(ctx context.Context, cfg config.Config, address string) (string, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	switch {
	case err == nil:
		return "free", l.Close()
	case errors.Is(err, syscall.EADDRINUSE) && runs(ctx, cfg):
		return "in use by a running tipcache", nil
	}
	return "", err
}

// findCertificate returns when the certificate expires, and a warning if it expires soon.
func findCertificate(files config.TLS) (string, error) {
	c, err := conn.NewCertificate(files.Cert, files.Key, slog.New(slog.DiscardHandler))
	if err != nil {
		return "", err
	}
	v, expires := c.Validity()
	at := expires.UTC().Format(time.RFC3339)
	switch v {
	case conn.Expired:
		return "", errors.New("it expired at " + at)
	case conn.Expiring:
		return "", warning("it expires soon, at " + at)
	}
	return "it expires at " + at, nil
}

// runs reports whether a tipcache answers on the admin listener.
func runs(ctx context.Context, cfg config.Config) bool {
	base, err := AdminURL(cfg, cfg.Admin)
	if err != nil {
		return false
	}
	text, err := QueryAdmin(ctx, http.MethodGet, base+"/healthz", "", "")
	return err == nil && strings.HasPrefix(string(text), `{"status":"alive"}`)
}
