package conn_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/logtest"
)

// writeFile writes a file whose modification time is the bubble's clock.
func writeFile(t *testing.T, file string, content []byte) {
	t.Helper()
	expect.NoError(t, os.WriteFile(file, content, 0o600))
	expect.NoError(t, os.Chtimes(file, time.Now(), time.Now()))
}

func TestMismatchedCertificateIsRejectedAfterTenSeconds(t *testing.T) {
	pair := certificates()[0]
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})
	key := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: expect.Value(x509.MarshalPKCS8PrivateKey(pair.PrivateKey))(t)})
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	synctest.Test(t, func(t *testing.T) {
		writeFile(t, certFile, cert)
		writeFile(t, keyFile, key)
		var log logtest.Log
		c := expect.Value(conn.NewCertificate(certFile, keyFile, slog.New(slog.NewTextHandler(&log, nil))))(t)
		config := c.Config()
		served := func() *tls.Certificate { return expect.Value(config.GetCertificate(nil))(t) }
		previous := served()

		time.Sleep(time.Second) // the files are checked once a second
		writeFile(t, keyFile, []byte("half a key"))
		for mismatched := range 10 {
			if err := c.Rejected(); err != nil {
				t.Fatalf("Rejected after %d s = %v, want nil while the files are being replaced", mismatched, err)
			}
			time.Sleep(time.Second)
		}
		for range 3 {
			if err := c.Rejected(); err == nil {
				t.Error("Rejected after 10 s = nil, want the error of the key")
			}
			time.Sleep(time.Second)
		}
		if served() != previous {
			t.Error("certificate changed while the files mismatch, want the previous one")
		}
		expect.Equal(t, log.Count(`msg="rejected new certificate, keeping the current one"`), 1, "log lines about the rejected files")

		writeFile(t, keyFile, key)
		time.Sleep(time.Second)
		if err := c.Rejected(); err != nil {
			t.Errorf("Rejected after the files match = %v, want nil", err)
		}
		if served() == previous {
			t.Error("previous certificate still served, want the new one")
		}
		expect.Equal(t, log.Count(`msg="certificate renewed"`), 1, "log lines about the new certificate")
	})
}
