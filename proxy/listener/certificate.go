package listener

import (
	"crypto/tls"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

// A Certificate is a listener's certificate and key in files. They are renewed by
// replacing the files: the next handshake uses the new ones.
type Certificate struct {
	cert, key string
	log       *slog.Logger

	mu      sync.Mutex
	current *tls.Certificate
	stamp   [2]time.Time // of the files it is from
	looked  time.Time
	failed  string // what was logged last
}

// certificateCheck is the time between two looks at the files.
const certificateCheck = time.Second

// NewCertificate reads both files.
func NewCertificate(cert, key string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{cert: cert, key: key, log: log}
	return c, c.load()
}

// Config is for http.Server, which speaks HTTP/2 with it, too.
func (c *Certificate) Config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, NextProtos: []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.get(), nil },
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
	c.current, c.stamp = &pair, stamp
	return nil
}

// tell logs each failure once, and each certificate.
func (c *Certificate) tell(err error) {
	switch {
	case err == nil:
		c.failed = ""
		c.log.Info("certificate renewed", "file", c.cert, "expires", c.current.Leaf.NotAfter)
	case err.Error() != c.failed:
		c.failed = err.Error()
		c.log.Error("certificate refused, the one before stays in force", "error", err)
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
