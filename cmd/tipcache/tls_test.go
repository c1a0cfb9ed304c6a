package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// createCertificate writes a new certificate and its key into files, and returns a pool that trusts it.
func createCertificate(t *testing.T) (config.TLS, *x509.CertPool) {
	t.Helper()
	files := certificateFiles(t)
	return files, writeCertificate(t, files, time.Now().AddDate(0, 0, 30))
}

func certificateFiles(t *testing.T) config.TLS {
	dir := t.TempDir()
	return config.TLS{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")}
}

// writeCertificate replaces a certificate of 127.0.0.1 and its key, and returns a pool that trusts it.
func writeCertificate(t *testing.T, files config.TLS, expires time.Time) *x509.CertPool {
	t.Helper()
	key := expect.Value(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: expires.AddDate(-1, 0, 0), NotAfter: expires,
	}
	cert := expect.Value(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	encoded := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert})
	encodedKey := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: expect.Value(x509.MarshalPKCS8PrivateKey(key))(t)})
	expect.NoError(t, os.WriteFile(files.Cert, encoded, 0o600))
	expect.NoError(t, os.WriteFile(files.Key, encodedKey, 0o600))
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(encoded)
	return trusted
}

// getTLS sends a GET request over a new connection.
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
	files, trusted := createCertificate(t)
	r := startUnready(t, newDevnet(t, devnet.Options{}), func(c *config.Config) { c.HTTP.TLS = files })
	public, admin := strings.Replace(r.base, "http:", "https:", 1), strings.Replace(r.admin, "http:", "https:", 1)
	r.eventually("ready", func() bool {
		resp, err := getTLS(t, admin+"/readyz", trusted)
		return err == nil && resp.StatusCode == http.StatusOK
	})
	for range 3 {
		resp, err := getTLS(t, public+"/staking/params", trusted)
		if err != nil || resp.StatusCode != http.StatusOK || resp.ProtoMajor != 2 {
			t.Fatalf("GET /staking/params = %+v, %v; want 200 over HTTP/2", resp, err)
		}
	}
	for _, command := range [][]string{{"health"}, {"explain", "/staking/params"}, {"purge", "all"}} {
		for _, at := range [][]string{{"--admin", r.Addresses.Admin, "--config", configWithTLS(t, files)}, {"--admin", admin}} {
			if _, err := runCommand(t, append(command, at...)...); err != nil {
				t.Errorf("%v %v = %v, want no error", command, at, err)
			}
		}
		_, err := runCommand(t, append(command, "--admin", r.Addresses.Admin)...)
		expect.Contains(t, fmt.Sprint(err), "speaks TLS, but http.tls is not set here", "error of %v without http.tls", command)
	}
	renewed := writeCertificate(t, files, time.Now().AddDate(0, 0, 30))
	r.eventually("response with the new certificate", func() bool {
		_, err := getTLS(t, public+"/staking/params", renewed)
		return err == nil
	})
	if _, err := getTLS(t, public+"/staking/params", trusted); err == nil {
		t.Error("old certificate still served after the reload")
	}
}

func TestUnusableCertificateIsDegraded(t *testing.T) {
	t.Parallel()
	files, trusted := createCertificate(t)
	r := startUnready(t, newDevnet(t, devnet.Options{}), func(c *config.Config) { c.HTTP.TLS = files })
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: trusted}}}
	defer client.CloseIdleConnections()
	waitFor := func(what string, is func(ready bool, cause string) bool) {
		r.eventually(what, func() bool {
			resp := expect.Value(client.Get(strings.Replace(r.admin, "http:", "https:", 1) + "/readyz"))(t)
			defer resp.Body.Close()
			state := gjson.ParseBytes(expect.Value(io.ReadAll(resp.Body))(t))
			return is(resp.StatusCode == http.StatusOK, state.Get("degraded.certificate").String())
		})
	}
	waitFor("ready", func(ready bool, cause string) bool { return ready && cause == "" })
	key := expect.Value(os.ReadFile(files.Key))(t)
	expect.NoError(t, os.WriteFile(files.Key, []byte("half a key"), 0o600))
	waitFor("ready with a degraded certificate", func(ready bool, cause string) bool { // after ten seconds, in which the files may be replaced
		return ready && strings.Contains(cause, files.Key+": tls: failed to find any PEM data")
	})
	expect.NoError(t, os.WriteFile(files.Key, key, 0o600))
	waitFor("no longer degraded", func(ready bool, cause string) bool { return ready && cause == "" })
}

func TestExpiringCertificateIsReported(t *testing.T) {
	for _, tt := range []struct {
		name          string
		expiresIn     time.Duration
		logged, check string // in the log of serve, and the output of check
		state         string
	}{
		{"valid for more than two weeks", 20 * 24 * time.Hour, "", "", `"state":"ok"`},
		{"expires within two weeks", 13 * 24 * time.Hour, `"level":"WARN","msg":"certificate expires soon"`, "it expires soon, at ", `"state":"expiring"`},
		{"expired", -time.Hour, `"level":"ERROR","msg":"certificate has expired"`, "it expired at ", `"state":"expired"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			files := certificateFiles(t)
			expires := time.Now().Add(tt.expiresIn)
			writeCertificate(t, files, expires)
			args := []string{"--config", configWithTLS(t, files), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--node", "none"}
			for _, command := range [][]string{{"check"}, {"check", "--connect"}} {
				out, err := runCommand(t, append(command, args...)...)
				if (err != nil) != (tt.expiresIn < 0) {
					t.Errorf("%s = %v, want an error only if the certificate has expired", command, err)
				}
				if text := fmt.Sprint(out, err); !strings.Contains(text, tt.check) || tt.check == "" && strings.Contains(text, "soon") {
					t.Errorf("%s = %s, want %q", command, text, tt.check)
				}
			}
			p := startProgram(t, nil, append([]string{"serve"}, args...)...)
			admin := strings.Replace(p.admin(), "http:", "https:", 1)
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}} //nolint:gosec // a test
			defer client.CloseIdleConnections()
			read := func(path string) string {
				resp := expect.Value(client.Get(admin + path))(t)
				defer resp.Body.Close()
				text, _ := io.ReadAll(resp.Body)
				return string(text)
			}
			expect.Contains(t, read("/readyz"), tt.state, "/readyz")
			const expiry = "tipcache_http_certificate_expiry_timestamp_seconds"
			expect.Equal(t, int64(rig.ParseSamples(read("/metrics"))[expiry]), expires.Unix(), expiry)
			if log := p.output.String(); !strings.Contains(log, tt.logged) || tt.logged == "" && strings.Contains(log, "certificate ") {
				t.Errorf("log = %s, want %q in it, or no certificate", log, tt.logged)
			}
			if n := p.output.Count(`"msg":"certificate `); tt.logged != "" && n != 1 {
				t.Errorf("log lines about the certificate = %d, want 1", n)
			}
			if resp, err := http.Get(p.admin() + "/healthz"); err == nil { // a failed handshake
				_ = resp.Body.Close()
			}
			p.interrupt()
			if log := p.output.String(); strings.Contains(log, "TLS handshake") {
				t.Errorf("log = %s, want no failed handshake at level info", log)
			}
		})
	}
}

// configWithTLS returns a configuration file with a certificate.
func configWithTLS(t *testing.T, files config.TLS) string {
	t.Helper()
	return writeFile(t, "tipcache.yaml", "http: {tls: {cert: "+files.Cert+", key: "+files.Key+"}}")
}

func TestUnreadableCertificateIsReported(t *testing.T) {
	file := configWithTLS(t, certificateFiles(t))
	out, err := runCommand(t, "check", "--config", file)
	for _, part := range []string{"FAILED: ", "no such file", "1 of 3 parts failed"} {
		expect.Contains(t, fmt.Sprint(out, err), part, "output of check")
	}
	_, err = runCommand(t, "serve", "--config", file)
	for _, part := range []string{"http.tls.cert: ", "no such file"} {
		expect.Contains(t, fmt.Sprint(err), part, "error of serve")
	}
}

func TestServiceManagerIsNotifiedOfTheStopAndOfReadinessBeforeIt(t *testing.T) {
	t.Parallel()
	missing := "http://" + usedAddress(t) // so that serve waits for the newest block
	for name, tt := range map[string]struct{ flags, want []string }{
		"ready":     {[]string{"--node", "http://127.0.0.1:1", "--comet", "none", "--dialect", "story"}, []string{"READY=1", "STOPPING=1"}},
		"not ready": {[]string{"--node", missing, "--comet", missing, "--dialect", "story"}, []string{"STOPPING=1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			socket := expect.Value(net.ListenPacket("unixgram", filepath.Join(t.TempDir(), "notify")))(t)
			defer socket.Close()
			next := func(within time.Duration) string {
				buffer := make([]byte, 100)
				_ = socket.SetReadDeadline(time.Now().Add(within))
				n, _, _ := socket.ReadFrom(buffer)
				return string(buffer[:n])
			}
			p := startProgram(t, []string{"NOTIFY_SOCKET=" + socket.LocalAddr().String()}, append([]string{
				"serve", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--store", "sqlite::memory:", "--collections-auth", "none",
			}, tt.flags...)...)
			p.admin()
			var got []string
			if len(tt.want) > 1 {
				got = append(got, next(time.Minute))
			}
			p.interrupt()
			for text := next(100 * time.Millisecond); text != ""; text = next(100 * time.Millisecond) { // everything has been sent
				got = append(got, text)
			}
			expect.NoDiff(t, got, tt.want, "notifications")
		})
	}
}
