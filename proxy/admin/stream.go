package admin

import (
	"context"
	"encoding/json"
	"net/http"
	"time"
)

// maxStreams bounds those who watch at once; streamWrite is the time a watcher
// has to take a line.
const (
	maxStreams  = 32
	streamWrite = 10 * time.Second
)

// An update is a line of the stream: the samples since the line before, and what
// is true now. The first line has all that are kept.
type update struct {
	Samples []sample       `json:"samples"`
	Bounds  []float64      `json:"bounds"` // of the buckets of sample.Behind, in blocks; the last one has none
	Routes  []routeSummary `json:"routes"` // the busiest first
	State   any            `json:"state"`  // as /readyz tells it
	Ready   bool           `json:"ready"`
	Version string         `json:"version"`
	Started float64        `json:"started"` // Unix time in seconds
	Totals  totals         `json:"totals"`
	Limits  limits         `json:"limits"`
}

// totals are counters as /metrics has them at the time of the last sample.
type totals struct {
	Requests float64 `json:"requests"`
}

// limits are what gauges may grow to; 0: no limit, or not known.
type limits struct {
	Connections float64 `json:"connections"`
	Memory      float64 `json:"memory"`
}

// stream serves /status/stream: lines of JSON until the client leaves or the
// process ends.
func (h *Handler) stream(w http.ResponseWriter, r *http.Request) {
	if h.watching.Add(1) > maxStreams {
		h.watching.Add(-1)
		WriteJSON(w, http.StatusServiceUnavailable, map[string]string{"error": "too many pages are watching"})
		return
	}
	defer h.watching.Add(-1)
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("Cache-Control", "no-store")
	out, control := json.NewEncoder(w), http.NewResponseController(w)
	var last time.Time
	for {
		moments, more := h.samples.after(last)
		if len(moments) > 0 {
			_ = control.SetWriteDeadline(time.Now().Add(streamWrite)) // else a dead client would hold the stream
			if out.Encode(h.update(r.Context(), moments)) != nil || control.Flush() != nil {
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

func (h *Handler) update(ctx context.Context, moments []*moment) update {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	now := moments[len(moments)-1]
	u := update{Version: h.o.Version, Routes: summarize(h.samples.oldest(), now), Bounds: now.bounds, Started: now.started, Totals: now.totals, Limits: now.limits}
	u.Ready, u.State = h.o.Ready(ctx, nil)
	for _, m := range moments {
		u.Samples = append(u.Samples, m.sample)
	}
	return u
}
