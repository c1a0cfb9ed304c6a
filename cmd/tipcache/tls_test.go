package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// certify writes a certificate of 127.0.0.1 and its key, over those that are
// there, and returns a pool that trusts it.
func certify(t *testing.T, c config.TLS, serial int64) *x509.CertPool {
	t.Helper()
	return certifyUntil(t, c, serial, time.Now().AddDate(0, 0, 30))
}

func certifyUntil(t *testing.T, c config.TLS, serial int64, until time.Time) *x509.CertPool {
	t.Helper()
	key := expect.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	about := &x509.Certificate{
		SerialNumber: big.NewInt(serial), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: until.AddDate(-1, 0, 0), NotAfter: until,
	}
	cert := expect.Value(x509.CreateCertificate(rand.Reader, about, about, key.Public(), key))(t)
	secret := expect.Value(x509.MarshalPKCS8PrivateKey(key))(t)
	encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	writePEM(t, c.Cert, encoded)
	writePEM(t, c.Key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(encoded)
	return trusted
}

func writePEM(t *testing.T, file string, text []byte) {
	t.Helper()
	expect.NoError(t, os.WriteFile(file, text, 0o600))
}

// getTLS asks on a connection of its own.
func getTLS(t *testing.T, url string, trusted *x509.CertPool) (*http.Response, error) {
	t.Helper()
	transport := &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{RootCAs: trusted}}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get(url)
	if err == nil {
		_ = resp.Body.Close()
	}
	return resp, err
}

func TestListenersServeTLSAndReloadCertificate(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	files := config.TLS{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
	trusted := certify(t, files, 1)
	r := startUnready(t, newDevnet(t, devnet.Options{}), func(c *config.Config) { c.HTTP.TLS = files })
	public, admin := strings.Replace(r.base, "http:", "https:", 1), strings.Replace(r.admin, "http:", "https:", 1)
	r.eventually("ready", func() bool {
		resp, err := getTLS(t, admin+"/readyz", trusted)
		return err == nil && resp.StatusCode == http.StatusOK
	})
	for range 3 {
		resp, err := getTLS(t, public+"/staking/params", trusted)
		if err != nil || resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
			t.Fatalf("%+v, %v", resp, err)
		}
	}
	for _, command := range [][]string{{"health"}, {"explain", "/staking/params"}, {"purge", "all"}} {
		for _, at := range [][]string{{"--admin", r.AdminAddr(), "--config", configFile(t, files)}, {"--admin", admin}} {
			if _, err := runs(t, append(command, at...)...); err != nil {
				t.Errorf("%v %v: %v", command, at, err)
			}
		}
		if _, err := runs(t, append(command, "--admin", r.AdminAddr())...); err == nil || !strings.Contains(err.Error(), "speaks TLS, but http.tls is not set here") {
			t.Errorf("%v without http.tls: %v", command, err)
		}
	}
	writePEM(t, files.Key, []byte("half a key"))
	r.eventually("reported", func() bool {
		body, err := runs(t, "health", "--admin", admin)
		return err == nil && strings.Contains(body, `"certificate":"has been failing for`)
	})
	if _, err := getTLS(t, public+"/", trusted); err != nil {
		t.Errorf("files that do not fit each other are in force: %v", err)
	}
	renewed := certify(t, files, 2)
	r.eventually("the new certificate", func() bool {
		_, err := getTLS(t, public+"/staking/params", renewed)
		return err == nil
	})
	if _, err := getTLS(t, public+"/staking/params", trusted); err == nil {
		t.Error("old certificate still served after the reload")
	}
	if body, err := runs(t, "health", "--admin", admin); err != nil || strings.Contains(body, `"certificate":"has been failing`) {
		t.Errorf("health = %v, %s; want the certificate no longer degraded", err, body)
	}
}

func TestExpiringCertificateIsReported(t *testing.T) {
	for _, tt := range []struct {
		name         string
		left         time.Duration
		logged, said string // by serve, and by check
		state        string
	}{
		{"much time is left", 20 * 24 * time.Hour, "", "", `"state":"ok"`},
		{"two weeks are not left", 13 * 24 * time.Hour, `"level":"WARN","msg":"certificate expires soon"`, "it expires soon, at ", `"state":"expiring"`},
		{"it has expired", -time.Hour, `"level":"ERROR","msg":"certificate has expired"`, "it expired at ", `"state":"expired"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			files := config.TLS{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
			until := time.Now().Add(tt.left)
			certifyUntil(t, files, 1, until)
			args := []string{"--config", configFile(t, files), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--node", "none"}
			out, err := runs(t, append([]string{"check"}, args...)...)
			if err != nil || !strings.Contains(out, tt.said) || tt.said == "" && strings.Contains(out, "expire") {
				t.Errorf("check: %v, %s", err, out)
			}
			if _, err := runs(t, append([]string{"check", "--connect"}, args...)...); (err != nil) != (tt.left < 0) {
				t.Errorf("check --connect: %v; want an error only if the certificate has expired", err)
			}
			p := startProgram(t, nil, append([]string{"serve"}, args...)...)
			admin := strings.Replace(p.admin(), "http:", "https:", 1)
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // of a test
			defer client.CloseIdleConnections()
			read := func(path string) string {
				resp := expect.Value(client.Get(admin + path))(t)
				defer resp.Body.Close()
				text, _ := io.ReadAll(resp.Body)
				return string(text)
			}
			expect.Contains(t, read("/readyz"), tt.state, "/readyz")
			_, value, _ := strings.Cut(read("/metrics"), "\ntipcache_http_certificate_expiry_timestamp_seconds ")
			value, _, _ = strings.Cut(value, "\n")
			if got, err := strconv.ParseFloat(value, 64); err != nil || int64(got) != until.Unix() {
				t.Errorf("the gauge is %q, want %d", value, until.Unix())
			}
			if log := p.said.String(); !strings.Contains(log, tt.logged) || tt.logged == "" && strings.Contains(log, "certificate ") {
				t.Errorf("serve logs %s", log)
			}
			if n := p.said.Count(`"msg":"certificate `); tt.logged != "" && n != 1 {
				t.Errorf("%d lines about it, want one", n)
			}
			if resp, err := http.Get(p.admin() + "/healthz"); err == nil { // a failed handshake
				_ = resp.Body.Close()
			}
			_ = p.cmd.Process.Signal(os.Interrupt)
			<-p.ended
			if log := p.said.String(); strings.Contains(log, "TLS handshake") {
				t.Errorf("log has a failed handshake at level info: %s", log)
			}
		})
	}
}

func configFile(t *testing.T, files config.TLS) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tipcache.yaml")
	writePEM(t, file, []byte("http: {tls: {cert: "+files.Cert+", key: "+files.Key+"}}"))
	return file
}

func TestUnreadableCertificateIsReportedWithItsLine(t *testing.T) {
	missing := config.TLS{Cert: filepath.Join(t.TempDir(), "tls.crt"), Key: "tls.key"}
	_, err := runs(t, "check", "--config", configFile(t, missing))
	if err == nil || !strings.Contains(err.Error(), "tipcache.yaml:1: http.tls.cert: ") || !strings.Contains(err.Error(), "no such file") {
		t.Error(err)
	}
}

func TestServiceManagerIsNotNotifiedOfReadinessWhileStopping(t *testing.T) {
	t.Parallel()
	socket := expect.Value(net.ListenPacket("unixgram", filepath.Join(t.TempDir(), "notify")))(t)
	defer socket.Close()
	silent := taken(t) // so that the newest block is waited for
	p := startProgram(t, []string{"NOTIFY_SOCKET=" + socket.LocalAddr().String()}, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--node", "http://"+silent, "--comet", "http://"+silent, "--dialect", "story", "--store", "sqlite::memory:", "--collections-auth", "none")
	p.admin()
	_ = p.cmd.Process.Signal(os.Interrupt)
	<-p.ended
	stopping := false
	for buffer := make([]byte, 100); ; {
		_ = socket.SetReadDeadline(time.Now().Add(100 * time.Millisecond)) // all was sent before the end
		n, _, err := socket.ReadFrom(buffer)
		if err != nil {
			break
		}
		if stopping {
			t.Errorf("%s after STOPPING=1", buffer[:n])
		}
		stopping = string(buffer[:n]) == "STOPPING=1"
	}
	if !stopping {
		t.Errorf("the last word is not STOPPING=1: %s", p.said.String())
	}
}

func TestServiceManagerIsNotified(t *testing.T) {
	t.Parallel()
	socket := expect.Value(net.ListenPacket("unixgram", filepath.Join(t.TempDir(), "notify")))(t)
	defer socket.Close()
	p := startProgram(t, []string{"NOTIFY_SOCKET=" + socket.LocalAddr().String()}, "serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0",
		"--node", "http://127.0.0.1:1", "--comet", "none", "--store", "sqlite::memory:", "--collections-auth", "none")
	for _, want := range []string{"READY=1", "STOPPING=1"} {
		buffer := make([]byte, 100)
		_ = socket.SetReadDeadline(time.Now().Add(time.Minute))
		n, _, err := socket.ReadFrom(buffer)
		if err != nil || string(buffer[:n]) != want {
			t.Fatalf("%q, %v, want %s; %s", buffer[:n], err, want, p.said.String())
		}
		_ = p.cmd.Process.Signal(os.Interrupt)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	select {
	case <-p.ended:
	case <-ctx.Done():
		t.Error("still running, want it ended")
	}
}
