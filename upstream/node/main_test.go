package node

import (
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/tipcache/tipcache/upstream/leaktest"
)

// certificate is the server whose certificate the tests trust.
var certificate = func() *httptest.Server {
	s := httptest.NewTLSServer(http.NotFoundHandler())
	s.Close()
	return s
}()

func TestMain(m *testing.M) {
	f, err := os.CreateTemp("", "tipcache-roots-")
	if err = errors.Join(err, pem.Encode(f, &pem.Block{Type: "CERTIFICATE", Bytes: certificate.Certificate().Raw})); err != nil {
		panic(err)
	}
	_ = f.Close()
	_ = os.Setenv("SSL_CERT_FILE", f.Name())
	leaktest.Main(m, func() { _ = os.Remove(f.Name()) })
}
