package conn

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// A Certificate is a listener's certificate and key in files. Replaced files are used
// within certificateCheck.
type Certificate struct {
	cert, key string
	log       *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	expires time.Time    // earliest expiry in the chain
	stamp   [2]time.Time // modification times of its files
	checked time.Time    // when the files were last checked
	since   time.Time    // since when the files are unusable; zero if they are usable
	logged  Validity     // last logged validity

	rejected error // last logged error of the files; nil if they are usable
}

// Validity is the state of a certificate.
type Validity string

// The validities.
const (
	Valid    Validity = "ok"
	Expiring Validity = "expiring" // within expiringWithin
	Expired  Validity = "expired"
)

// expiringWithin is how long before its expiry a certificate is expiring. The alert uses the same time.
const expiringWithin = 14 * 24 * time.Hour

// certificateCheck is the minimum interval between checks of the files.
const certificateCheck = time.Second

// NewCertificate returns the certificate in the files.
func NewCertificate(cert, key string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, log: log, logged: Valid}
	return c, c.load()
}

// Measure registers a metric with the expiry of the current certificate.
func (c *Certificate) Measure(r prometheus.Registerer) {
	promauto.With(r).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tipcache_http_certificate_expiry_timestamp_seconds",
		Help: "Unix time at which the certificate, or an issuer's certificate in the same file, expires.",
	}, func() float64 { _, expires := c.Validity(); return float64(expires.Unix()) })
}

// Validity returns the validity of the current certificate and when it expires. It logs a changed validity.
func (c *Certificate) Validity() (v Validity, expires time.Time) {
	c.get()
	c.mu.Lock()
	defer c.mu.Unlock()
	switch left := time.Until(c.expires); {
	case left <= 0:
		v = Expired
	case left < expiringWithin:
		v = Expiring
	default:
		v = Valid
	}
	switch {
	case v == c.logged:
	case v == Expired:
		c.log.Error("certificate has expired", "file", c.cert, "expired", c.expires)
	case v == Expiring:
		c.log.Warn("certificate expires soon", "file", c.cert, "expires", c.expires)
	}
	c.logged = v
	return v, c.expires
}

// Rejected returns why the files have been unusable for longer than replacing, or nil.
func (c *Certificate) Rejected() error {
	c.get()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.rejected
}

// Config returns the TLS configuration for http.Server, with HTTP/2.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		DynamicRecordSizingDisabled: true, // responses are written whole, so small records only cost CPU
		GetCertificate:              func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get(), nil },
	}
}

// get returns the current certificate. It ignores files that do not match, as happens while they are being replaced.
func (c *Certificate) get() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.checked) >= certificateCheck {
		c.checked = now
		if stamp, err := c.stamps(); err != nil || stamp != c.stamp {
			c.logReload(c.load())
		} else {
			c.rejected, c.since = nil, time.Time{}
		}
	}
	return c.current
}

func (c *Certificate) load() error {
	stamp, err := c.stamps()
	if err != nil {
		return err
	}
	pair, err := tls.LoadX509KeyPair(c.cert, c.key)
	if err != nil {
		return fmt.Errorf("%s with %s: %w", c.cert, c.key, err)
	}
	c.current, c.expires, c.stamp = &pair, firstExpiry(pair), stamp
	return nil
}

// firstExpiry returns the earliest expiry of the certificates in a chain. Clients refuse a chain if one has expired.
func firstExpiry(pair tls.Certificate) time.Time {
	first := pair.Leaf.NotAfter
	for _, raw := range pair.Certificate[1:] {
		if issuer, err := x509.ParseCertificate(raw); err == nil && issuer.NotAfter.Before(first) {
			first = issuer.NotAfter
		}
	}
	return first
}

// replacing is how long the files may mismatch, because one is replaced after the other.
const replacing = 10 * time.Second

// logReload logs each new certificate once, and each error once that lasts longer than replacing.
func (c *Certificate) logReload(err error) {
	if err != nil && c.since.IsZero() {
		c.since = time.Now()
	}
	switch {
	case err == nil:
		c.rejected, c.since = nil, time.Time{}
		c.log.Info("certificate renewed", "file", c.cert, "expires", c.expires)
	case time.Since(c.since) >= replacing && (c.rejected == nil || err.Error() != c.rejected.Error()):
		c.rejected = err
		c.log.Error("rejected new certificate, keeping the current one", "error", err)
	}
}

func (c *Certificate) stamps() (stamp [2]time.Time, err error) {
	for i, file := range []string{c.cert, c.key} {
		info, err := os.Stat(file)
		if err != nil {
			return stamp, err
		}
		stamp[i] = info.ModTime()
	}
	return stamp, nil
}
