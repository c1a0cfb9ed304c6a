package faults

import (
	"bytes"
	"context"
	"io"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A flood opens floodStreams streams on an HTTP/2 connection, and reads no more of each than the window that it grants.
type flood struct {
	of      func(*bed) string // returns the address
	window  uint32            // for each response
	path    func(client, stream int) string
	headers [][2]string
	data    func(client, stream int) []byte // nil for none
	ends    bool                            // the request is complete
}

// isGet reports whether the requests end with their headers.
func (f flood) isGet() bool { return f.ends && f.data == nil }

func (f flood) run(ctx context.Context, b *bed, client int) {
	b.talk(ctx, f.of(b), func(c io.Writer) error { return f.open(c, b, client) }, readAll) // frames without flow control
}

// open opens the streams.
func (f flood) open(c io.Writer, b *bed, client int) error {
	var out bytes.Buffer
	out.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&out, nil)
	_ = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: f.window})
	for i := range floodStreams {
		id := uint32(1 + 2*i) //nolint:gosec // few
		block := f.block(b, client, i)
		rest := block[min(len(block), 16<<10):]
		_ = framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block[:len(block)-len(rest)], EndStream: f.isGet(), EndHeaders: len(rest) == 0})
		if len(rest) > 0 {
			_ = framer.WriteContinuation(id, true, rest)
		}
		if f.data != nil {
			f.writeData(framer, id, f.data(client, i))
		}
		if out.Len() > 256<<10 {
			if _, err := c.Write(out.Bytes()); err != nil {
				return err
			}
			out.Reset()
		}
	}
	_, err := c.Write(out.Bytes())
	return err
}

func (f flood) writeData(framer *http2.Framer, id uint32, data []byte) {
	for len(data) > 16<<10 {
		_ = framer.WriteData(id, false, data[:16<<10])
		data = data[16<<10:]
	}
	_ = framer.WriteData(id, f.ends, data)
}

// block returns the encoded headers of a request.
func (f flood) block(b *bed, client, stream int) []byte {
	method, scheme := "POST", "http"
	if f.isGet() {
		method = "GET"
	}
	if b.setup.tls {
		scheme = "https"
	}
	var out bytes.Buffer
	e := hpack.NewEncoder(&out)
	e.SetMaxDynamicTableSize(0)
	for _, h := range append([][2]string{{":method", method}, {":scheme", scheme}, {":path", f.path(client, stream)}, {":authority", "bench"}}, f.headers...) {
		_ = e.WriteField(hpack.HeaderField{Name: h[0], Value: h[1], Sensitive: true})
	}
	return out.Bytes()
}
