package node

import (
	"compress/gzip"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"github.com/tipcache/tipcache/upstream/transport"
)

// isLocal reports whether a base URL names this machine, where compression only costs time.
func isLocal(base *url.URL) bool {
	host := base.Hostname()
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// An inflating transport decompresses gzip bodies, even if gzip was not requested. It leaves other values of
// Content-Encoding unchanged.
type inflating struct{ *transport.Transport }

// RoundTrip implements http.RoundTripper.
func (t inflating) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := t.Transport.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	switch strings.ToLower(strings.Join(response.Header.Values("Content-Encoding"), ", ")) {
	case "gzip", "x-gzip":
		response.Body = &inflated{compressed: response.Body}
		response.ContentLength = -1
		response.Header.Del("Content-Length")
		response.Header.Del("Content-Encoding")
	case "identity":
		response.Header.Del("Content-Encoding")
	}
	return response, nil
}

// An inflated body decompresses a gzip body. Its reader limits the size.
type inflated struct {
	compressed io.ReadCloser
	reader     *gzip.Reader // nil before the first Read and after Close
}

var gzipReaders = sync.Pool{New: func() any { return new(gzip.Reader) }}

// Read implements io.Reader.
func (b *inflated) Read(p []byte) (int, error) {
	if b.reader == nil {
		reader := gzipReaders.Get().(*gzip.Reader) //nolint:forcetypeassert // the pool has no others
		if err := reader.Reset(b.compressed); err != nil {
			return 0, err
		}
		b.reader = reader
	}
	return b.reader.Read(p)
}

// Close implements io.Closer.
func (b *inflated) Close() error {
	if b.reader != nil {
		gzipReaders.Put(b.reader)
		b.reader = nil
	}
	return b.compressed.Close()
}
