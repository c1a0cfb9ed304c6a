package admin

import (
	"cmp"
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"time"
)

// An update is a line of the stream: the samples since the previous line and the current state. The first
// line has all samples.
type update struct {
	Samples []json.RawMessage `json:"samples"`
	Routes  []routeSummary    `json:"routes"` // the busiest first
	State   any               `json:"state"`  // the body of /readyz
	Ready   bool              `json:"ready"`
	Version string            `json:"version"`
	present
}

// stream serves /status/stream: lines of JSON until the client leaves or Close is called.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	out, control := json.NewEncoder(w), http.NewResponseController(w)
	var last time.Time
	for h.admits(r) { // the token may have changed
		oldest, moments, more := h.samples.after(last)
		if len(moments) > 0 {
			if out.Encode(h.update(r.Context(), oldest, moments)) != nil || control.Flush() != nil {
				return
			}
			last = moments[len(moments)-1].at
		}
		select {
		case <-more:
		case <-r.Context().Done():
			return
		case <-h.ended:
			return
		}
	}
}

func (h *Handler) update(ctx context.Context, oldest *moment, moments []*moment) update {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	now := moments[len(moments)-1]
	u := update{Version: h.o.Version, Routes: summarize(oldest, now), present: now.present}
	u.Ready, u.State = h.o.Ready(ctx, nil)
	for _, m := range moments {
		u.Samples = append(u.Samples, m.sample)
	}
	return u
}

// A routeSummary has the figures of a route since the oldest kept sample.
type routeSummary struct {
	Name string  `json:"name"`
	Rate float64 `json:"rate"`
	Hits float64 `json:"hits"` // share of the requests
	Mean float64 `json:"mean"` // mean duration in seconds
	Miss float64 `json:"miss"` // mean duration of misses in seconds; 0 if there were none
}

// summarize returns the figures of routes between two moments, the busiest route first.
func summarize(from, to *moment) []routeSummary {
	seconds := max(to.at.Sub(from.at).Seconds(), interval.Seconds())
	all := []routeSummary{}
	for _, name := range slices.Sorted(maps.Keys(to.routes)) {
		a, b := from.routes[name], to.routes[name]
		n, hits := b.requests-a.requests, b.hits-a.hits
		if n <= 0 {
			continue
		}
		r := routeSummary{Name: name, Rate: n / seconds, Hits: hits / n, Mean: (b.seconds - a.seconds) / n}
		if n > hits {
			r.Miss = (b.waited - a.waited) / (n - hits)
		}
		all = append(all, r)
	}
	slices.SortStableFunc(all, func(a, b routeSummary) int { return cmp.Compare(b.Rate, a.Rate) })
	return all
}
