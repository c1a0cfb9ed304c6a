package service

import (
	"context"
	"net/http"
	"time"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/admin"
)

// explainTimeout is for an explanation: memory and one exchange with Redis.
const explainTimeout = 5 * time.Second

// explain serves GET /admin/explain?url=/staking/params, and &height=, &body= and &interface=.
func (s *Service) explain(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), explainTimeout)
	defer cancel()
	asked := r.URL.Query()
	e, err := s.proxy.Explain(ctx, proxy.Inquiry{URL: asked.Get("url"), Height: asked.Get("height"), Body: asked.Get("body"), Interface: asked.Get("interface")})
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
