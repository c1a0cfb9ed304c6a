package service

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/admin"
)

// explainTimeout covers a lookup in memory and one exchange with Redis.
const explainTimeout = 5 * time.Second

// explain serves GET /admin/explain?url=/staking/params, &height= and &body=.
func (s *Service) explain(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := admin.Extend(w, r, explainTimeout)
	defer cancel()
	query := r.URL.Query()
	e, err := s.proxy.Explain(ctx, proxy.Inquiry{URL: query.Get("url"), Height: query.Get("height"), Body: query.Get("body")})
	if err != nil {
		admin.WriteJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	if e.Policy != nil && e.Class != "collections" {
		for _, h := range s.pool.Health() {
			e.Nodes = append(e.Nodes, proxy.ExplainedNode{Name: h.Name, Lowest: h.Lowest, Height: h.Height, Unfit: h.Unfit})
		}
	}
	admin.WriteJSON(w, http.StatusOK, e)
}

// configuration serves GET /admin/config: the configuration in force as YAML, without secrets.
func (s *Service) configuration(w http.ResponseWriter, _ *http.Request) {
	s.configMu.Lock()
	cfg := s.running
	s.configMu.Unlock()
	text, err := cfg.Redacted()
	if err != nil {
		admin.WriteJSON(w, http.StatusInternalServerError, map[string]string{"error": err.Error()})
		return
	}
	w.Header().Set("Content-Type", "application/yaml")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(text) // fails only when the client has left
}

// purgeTimeout is enough for some millions of keys in Redis.
const purgeTimeout = time.Minute

type purged struct {
	Memory   int    `json:"memory"`   // entries removed from this process
	Redis    int    `json:"redis"`    // entries removed from Redis
	Replicas string `json:"replicas"` // notified, not notified, or none without a Redis
	Error    string `json:"error,omitempty"`
}

// purge serves POST /admin/purge with one of route=NAME, method=SERVICE/METHOD, prefix=KEY,
// address=0x... and all=true, in the query or as a form.
func (s *Service) purge(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, 16<<10)
	selections, err := s.selection(r)
	if err != nil {
		admin.WriteJSON(w, http.StatusBadRequest, map[string]string{"error": err.Error()})
		return
	}
	ctx, cancel := admin.Extend(w, r, purgeTimeout)
	defer cancel()
	var done cache.Purged
	for _, sel := range selections {
		removed, failure := s.cache.PurgeKeys(ctx, sel)
		done.Memory, done.Shared, done.Notified = done.Memory+removed.Memory, done.Shared+removed.Shared, removed.Notified
		err = cmp.Or(err, failure) // memory is purged without Redis, too
	}
	s.proxy.Forget()
	answer, status := purged{Memory: done.Memory, Redis: done.Shared, Replicas: "notified"}, http.StatusOK
	switch {
	case err != nil:
		answer.Replicas, answer.Error, status = "not notified", err.Error(), http.StatusBadGateway
	case !done.Notified:
		answer.Replicas = "none"
	}
	s.log.Info("purged", "selection", selections, "memory", done.Memory, "redis", done.Shared, "replicas", answer.Replicas, "error", answer.Error)
	admin.WriteJSON(w, status, answer)
}

var errSelection = errors.New("expected one of route=NAME, method=SERVICE/METHOD, prefix=KEY-PREFIX, address=ACCOUNT and all=true")

// selection reads the parameter that selects entries. Several or none are an error, so that a typo does
// not purge everything.
func (s *Service) selection(r *http.Request) ([]cache.Selection, error) {
	one := func(sel cache.Selection, err error) ([]cache.Selection, error) { return []cache.Selection{sel}, err }
	if err := r.ParseForm(); err != nil {
		return nil, errSelection
	}
	for name, values := range r.Form {
		if len(r.Form) != 1 || len(values) != 1 || values[0] == "" {
			break
		}
		switch value := values[0]; name {
		case "route":
			return s.proxy.SelectRoute(value)
		case "method":
			return one(s.proxy.SelectMethod(value))
		case "prefix":
			return one(cache.Selection{Prefix: value}, nil)
		case "address":
			return s.proxy.SelectAddress(value)
		case "all":
			if yes, err := strconv.ParseBool(value); err == nil && yes {
				return one(cache.Selection{}, nil)
			}
		}
	}
	return nil, errSelection
}
