package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/tipcache/tipcache/config"
)

// healthCommand is a probe for containers whose image has no other HTTP client.
func healthCommand(std streams) *cobra.Command {
	c := &cobra.Command{
		Use: "health", Short: "ask a running serve whether it is ready; the exit status is the answer", Args: operands,
	}
	settings := addFlagsOf(c.Flags(), func(k config.Key) bool { return k.Path == "admin" })
	c.RunE = func(c *cobra.Command, _ []string) error {
		settings.values["listen"] = []string{"127.0.0.1:0"} // nothing is listened on
		cfg, err := settings.load()
		if err != nil {
			return err
		}
		return health(c.Context(), cfg, std.out)
	}
	return c
}

// health prints what the admin listener says. An error means that it is not ready, or
// does not answer in time.
func health(ctx context.Context, cfg config.Config, w io.Writer) error {
	if cfg.Admin == "none" {
		return errors.New("admin is none: there is nobody to ask")
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	scheme, client := "http", http.DefaultClient
	if cfg.HTTP.TLS.Cert != "" {
		scheme = "https"
		// The certificate is of another name. What is asked is no secret, and the
		// answer comes from this machine.
		transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
		defer transport.CloseIdleConnections()
		client = &http.Client{Transport: transport}
	}
	text, err := askAdmin(ctx, client, scheme+"://"+dialable(cfg.Admin)+"/readyz", "", "not ready")
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
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
