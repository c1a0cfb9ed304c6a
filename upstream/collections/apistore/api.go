// Package apistore reads collections from another server with the documented API.
package apistore

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/collections"
)

const maxBody = 8 << 20 // maximum size of a response in bytes

// An httpStore reads from another server with the documented API: Story's API v4 or a tipcache. It is read-only. It provides
// metadata, but no generation.
type httpStore struct {
	endpoint string
	key      string
	secret   *strings.Replacer // hides the key, which a server may echo
	client   *http.Client
	memory   *account.Part // budget of responses; nil means no limit
	worked   atomic.Int64  // Unix nanoseconds of the last List if it succeeded, otherwise 0
}

// Open returns the driver for a base URL such as https://host/api/v4. Its errors contain no password.
func Open(_ context.Context, base string, o collections.Options) (string, collections.Driver, error) {
	u, err := url.Parse(base)
	if err != nil || u.Host == "" {
		return "", nil, errors.New("collections: the store's URL is malformed (not shown: it may hold a password)")
	}
	if u.User != nil || u.RawQuery != "" || u.Fragment != "" {
		return "", nil, errors.New("collections: the store's URL is a base such as https://host/api/v4, without user, query or fragment")
	}
	name := strings.TrimRight(u.String(), "/")
	transport := upstream.NewTransport(o.Connections)
	transport.MaxConnsPerHost = o.Connections
	return name, &httpStore{
		endpoint: name + "/collections",
		key:      o.StoreKey,
		secret:   upstream.NewRedactor(nil, o.StoreKey),
		client:   upstream.NewClient(transport, nil, nil),
		memory:   o.Memory,
	}, nil
}

func (s *httpStore) List(ctx context.Context, q collections.Query) (collections.Page, error) {
	page, err := s.fetch(ctx, q)
	switch {
	case err == nil:
		s.worked.Store(time.Now().UnixNano())
	case !errors.Is(err, context.Canceled):
		s.worked.Store(0)
	}
	if silent, ok := errors.AsType[*upstream.Error](err); ok && silent.Err != nil {
		silent.Err = upstream.RedactError(silent.Err, s.secret)
	}
	return page, err
}

func (s *httpStore) fetch(ctx context.Context, q collections.Query) (collections.Page, error) {
	res, err := s.post(ctx, newListRequest(q))
	if err != nil {
		return collections.Page{}, httpError(err)
	}
	defer res.Body.Close()
	body, err := s.memory.Read(res.Body, res.ContentLength, maxBody)
	switch {
	case errors.Is(err, account.ErrTooLarge):
		return collections.Page{}, collections.Unusable(fmt.Errorf("response exceeds %d bytes", maxBody))
	case errors.Is(err, account.ErrFull):
		return collections.Page{}, collections.Busy(err)
	case err != nil:
		return collections.Page{}, httpError(err)
	case res.StatusCode != http.StatusOK:
		return collections.Page{}, s.refusal(res, body)
	}
	page, err := parsePage(body, q)
	if err != nil {
		return collections.Page{}, collections.Unusable(err)
	}
	return page, nil
}

func (s *httpStore) post(ctx context.Context, query collections.ListRequest) (*http.Response, error) {
	body, _ := json.Marshal(query) // texts and numbers always encode
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json")
	upstream.MarkRepeatable(req)
	if s.key != "" {
		req.Header.Set("X-Api-Key", s.key)
	}
	return s.client.Do(req)
}

// pingInterval is the least time between a successful List and a request by Ping, because servers count requests.
const pingInterval = 30 * time.Second

// Ping reads one collection, because the API has no cheaper request.
func (s *httpStore) Ping(ctx context.Context) error {
	passed := time.Since(time.Unix(0, s.worked.Load()))
	if passed >= 0 && passed < pingInterval { // negative after a change of the clock
		return nil
	}
	_, err := s.List(ctx, collections.Query{Desc: true, Limit: 1})
	return err
}

func (s *httpStore) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// httpError classifies an error of the transport and removes its URL.
func httpError(err error) error {
	if errors.Is(err, context.Canceled) {
		return context.Canceled
	}
	return upstream.Silence(collections.OriginName, upstream.Bare(err))
}

func newListRequest(q collections.Query) (r collections.ListRequest) {
	r.OrderBy, r.OrderDirection = collections.OrderNames[q.OrderBy], "asc"
	if q.Desc {
		r.OrderDirection = "desc"
	}
	r.Pagination.Limit, r.Pagination.Offset = q.Limit, q.Offset
	r.Where = collections.ListFilters{Addresses: q.Addresses, MinAssets: q.MinAssets, MaxAssets: q.MaxAssets}
	return r
}

// Load fails, because the API has no request for it.
func (*httpStore) Load(context.Context, iter.Seq2[collections.Collection, error]) error {
	return collections.ErrReadOnly
}

// Mark returns only the base URL, and ErrNotIndexed, because the API does not show the progress of an indexer.
func (s *httpStore) Mark(context.Context) (collections.Mark, error) {
	return collections.Mark{Store: strings.TrimSuffix(s.endpoint, "/collections")}, collections.ErrNotIndexed
}
