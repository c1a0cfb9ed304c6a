package listener

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

// A Certificate is a listener's certificate and key in files. They are renewed by
// replacing the files: the next handshake uses the new ones.
type Certificate struct {
	cert, key string
	log       *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	expires time.Time    // of it, or of the issuer's behind it that expires first
	stamp   [2]time.Time // of the files it is from
	looked  time.Time
	failed  string    // what was logged last
	since   time.Time // since when the files cannot be used; zero: they can
	told    Validity  // the same
}

// Validity is how long a certificate holds on.
type Validity string

// The validities, by the time that is left.
const (
	Valid    Validity = "ok"
	Expiring Validity = "expiring" // less than ExpiringWithin
	Expired  Validity = "expired"
)

// expiringWithin is the time before its end in which a certificate is expiring. The
// alerts begin at the same time.
const expiringWithin = 14 * 24 * time.Hour

// certificateCheck is the time between two looks at the files.
const certificateCheck = time.Second

// NewCertificate reads both files.
func NewCertificate(cert, key string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, log: log, told: Valid}
	return c, c.load()
}

// Measure registers when the certificate in force expires.
func (c *Certificate) Measure(r prometheus.Registerer) {
	promauto.With(r).NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tipcache_http_certificate_expiry_timestamp_seconds",
		Help: "Unix time at which the certificate, or an issuer's certificate in the same file, expires.",
	}, func() float64 { _, expires := c.Validity(); return float64(expires.Unix()) })
}

// Validity is that of the certificate in force, and when it ends. A validity that has
// changed is logged.
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
	switch told := c.told; {
	case v == told:
	case v == Expired:
		c.log.Error("certificate has expired", "file", c.cert, "expired", c.expires)
	case v == Expiring:
		c.log.Warn("certificate expires soon", "file", c.cert, "expires", c.expires)
	}
	c.told = v
	return v, c.expires
}

// Config is for http.Server, which speaks HTTP/2 with it, too.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		DynamicRecordSizingDisabled: true, // an answer is written whole, and small records take more of it
		GetCertificate:              func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get(), nil },
	}
}

// get is the certificate in force. Files that do not fit each other, as they do
// not while they are being replaced, leave the one before in force.
func (c *Certificate) get() *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= certificateCheck {
		c.looked = now
		if stamp, err := c.stamps(); err != nil || stamp != c.stamp {
			c.tell(c.load())
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

// firstExpiry is that of the certificate, or of one behind it. Clients refuse the
// whole once one of them has expired.
func firstExpiry(pair tls.Certificate) time.Time {
	first := pair.Leaf.NotAfter
	for _, raw := range pair.Certificate[1:] {
		if issuer, err := x509.ParseCertificate(raw); err == nil && issuer.NotAfter.Before(first) {
			first = issuer.NotAfter
		}
	}
	return first
}

// replacing is how long the files may not fit each other, because one is replaced after the other.
const replacing = 10 * time.Second

// tell logs each certificate, and each failure that is not over soon, once.
func (c *Certificate) tell(err error) {
	if err != nil && c.since.IsZero() {
		c.since = time.Now()
	}
	switch {
	case err == nil:
		c.failed, c.since = "", time.Time{}
		c.log.Info("certificate renewed", "file", c.cert, "expires", c.expires)
	case err.Error() != c.failed && time.Since(c.since) >= replacing:
		c.failed = err.Error()
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
