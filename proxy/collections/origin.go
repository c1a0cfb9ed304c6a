package collections

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/web"
	store "github.com/tipcache/tipcache/upstream/collections"
)

// origin asks the store, then the provider, which is what a miss comes to.
func (h *Handler) origin(asked listing) cache.Origin {
	return func(ctx context.Context, prev *cache.Entry) (*cache.Entry, error) {
		now := time.Now()
		page, err := h.list(ctx, asked)
		if err != nil {
			return nil, err
		}
		if page.Total == 0 && h.progress().Filling {
			return nil, &web.Failure{Status: http.StatusServiceUnavailable, Public: "the collection store is being filled for the first time", RetryAfter: fillingRetry, Expected: true}
		}
		metadata, degraded := h.describe(ctx, page.Items)
		body := bytes.TrimSpace(encode(newListPage(asked, page, metadata)))
		edition := h.editionOf(page, now)
		e := &cache.Entry{Content: cache.NewContent(http.StatusOK, web.JSON, describedBy(PageSchema), body, 0), Height: edition, ReadAt: now}
		if degraded {
			e.Expires = now.Add(h.o.DegradedTTL)
		} else if prev != nil && prev.ETag == e.ETag && prev.Expires.IsZero() {
			return prev.Confirm(edition, now), nil
		}
		return e, nil
	}
}

func (h *Handler) list(ctx context.Context, asked listing) (store.Page, error) {
	if asked.Nothing {
		return store.Page{}, nil
	}
	page, err := h.o.Store.List(ctx, asked.Query)
	if err != nil {
		return page, fmt.Errorf("list collections: %w", err)
	}
	return page, nil
}

func (h *Handler) describe(ctx context.Context, items []store.Collection) (found map[string]json.RawMessage, degraded bool) {
	if h.o.Metadata == nil || len(items) == 0 {
		return nil, false
	}
	addresses := make([]string, len(items))
	for i, c := range items {
		addresses[i] = strings.ToLower(c.Address)
	}
	return h.o.Metadata.Lookup(ctx, addresses)
}
