package clients

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// HTTP2 runs the load as [Wrk] does: on each connection one request of HTTP/2 after another, with TLS and any certificate.
func HTTP2(ctx context.Context, l Load) (Loaded, error) {
	var mu sync.Mutex
	var took []time.Duration
	var all errgroup.Group
	began := time.Now()
	for range l.Connections {
		all.Go(func() error {
			own, err := l.alone(ctx, began.Add(l.Length))
			mu.Lock()
			defer mu.Unlock()
			took = append(took, own...)
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return Loaded{}, fmt.Errorf("%s: %w", l.URL, err)
	}
	if len(took) == 0 {
		return Loaded{}, errors.New("nothing was answered")
	}
	slices.Sort(took)
	n := float64(len(took))
	return Loaded{Requests: n, PerSecond: n / time.Since(began).Seconds(), P50: took[len(took)/2], P99: took[len(took)*99/100]}, nil
}

// alone is the load of one connection.
func (l Load) alone(ctx context.Context, end time.Time) (took []time.Duration, err error) {
	protocols := new(http.Protocols)
	protocols.SetHTTP2(true)
	transport := &http.Transport{Protocols: protocols, DisableCompression: true, TLSClientConfig: &tls.Config{InsecureSkipVerify: true}} //nolint:gosec // a server of this machine
	defer transport.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, l.URL, http.NoBody)
	if err != nil {
		return nil, err
	}
	for sent := time.Now(); sent.Before(end); {
		response, err := transport.RoundTrip(request)
		if err != nil {
			return nil, err
		}
		_, err = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
		if err != nil || response.StatusCode != http.StatusOK || response.ProtoMajor != 2 {
			return nil, errors.Join(fmt.Errorf("%s %s", response.Proto, response.Status), err)
		}
		now := time.Now()
		took, sent = append(took, now.Sub(sent)), now
	}
	return took, nil
}
