package main

import (
	"crypto/tls"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestIdleConnectionsEndAfterConfiguredTime(t *testing.T) {
	t.Parallel()
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + "\x00\x00\x00\x04\x00\x00\x00\x00\x00" // with empty SETTINGS
	const request = "GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n"
	files, pool := createCertificate(t)
	for _, withTLS := range []bool{false, true} {
		s := startUnready(t, newDevnet(t, devnet.Options{Dialect: devnet.Cosmos}), func(c *config.Config) {
			c.HTTP.IdleTimeout, c.RPC.Listen, c.GRPC.Listen = time.Second, "127.0.0.1:0", "127.0.0.1:0"
			if withTLS {
				c.HTTP.TLS = files
			}
		})
		addresses := map[string]string{"rest": s.Addresses.REST, "rpc": s.Addresses.RPC, "grpc": s.Addresses.GRPC}
		dial := func(name, protocol string) (net.Conn, error) {
			address := addresses[name]
			if !withTLS {
				return net.Dial("tcp", address)
			}
			return tls.Dial("tcp", address, &tls.Config{RootCAs: pool, NextProtos: []string{protocol}, MinVersion: tls.VersionTLS12})
		}
		for _, tt := range []struct{ listener, protocol, text string }{
			{"rest", "http/1.1", request}, {"rpc", "http/1.1", request}, {"grpc", "h2", preface}, {"rest", "h2", preface}, {"rpc", "h2", preface},
		} {
			if tt.protocol == "h2" && tt.listener != "grpc" && !withTLS {
				continue
			}
			c := expect.Value(dial(tt.listener, tt.protocol))(t)
			start, ended := time.Now(), make(chan string, 1)
			go func() {
				_, _ = io.WriteString(c, tt.text)
				ended <- readUntilClosed(c, tt.protocol)
			}()
			select {
			case problem := <-ended:
				if took := time.Since(start); problem != "" || took < 900*time.Millisecond {
					t.Errorf("idle connection of %s by %s ended after %v %s, want 1 s or more", tt.listener, tt.protocol, took, problem)
				}
			case <-time.After(time.Minute):
				t.Errorf("idle connection of %s by %s still open after a minute, want it closed after 1 s", tt.listener, tt.protocol)
			}
			_ = c.Close()
		}
	}
}

// readUntilClosed reads until the server closes the connection, or for HTTP/2 announces it by GOAWAY.
func readUntilClosed(c io.Reader, protocol string) (problem string) {
	if protocol != "h2" {
		text, _ := io.ReadAll(c)
		if !strings.HasPrefix(string(text), "HTTP/1.1 ") {
			return "without a response"
		}
		return ""
	}
	for head := make([]byte, 9); ; {
		const goAway = 7
		if _, err := io.ReadFull(c, head); err != nil || head[3] == goAway {
			return ""
		}
		if _, err := io.CopyN(io.Discard, c, int64(head[0])<<16|int64(head[1])<<8|int64(head[2])); err != nil {
			return ""
		}
	}
}
