package devnet

import (
	"encoding/json"
	"net/http"

	"go.yaml.in/yaml/v3"
)

// Stats are the numbers of requests to a devnet's servers since the start.
type Stats struct {
	Node     NodeStats `json:"node"`     // of the main node
	Provider int64     `json:"provider"` // requests at the metadata provider
	EVM      int64     `json:"evm"`      // requests at the execution client, failed ones included
}

// Stats returns the numbers of requests so far.
func (d *Devnet) Stats() Stats {
	return Stats{Node: d.nodes[0].Stats(), Provider: d.metadata.requests.Load(), EVM: d.evm.target.requests.Load()}
}

// controlHandler serves the requests that control a devnet:
//
//	GET    /devnet/faults   the faults in force, as YAML
//	PUT    /devnet/faults   replaces the faults of the named targets; YAML or JSON
//	GET    /devnet/stats    numbers of requests, and the 100 most frequent ones
func (d *Devnet) controlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /devnet/faults", func(w http.ResponseWriter, _ *http.Request) { _ = yaml.NewEncoder(w).Encode(d.Faults()) })
	mux.HandleFunc("PUT /devnet/faults", d.putFaults)
	mux.HandleFunc("GET /devnet/stats", func(w http.ResponseWriter, _ *http.Request) {
		stats := d.Stats()
		stats.Node.ReadCounts = stats.Node.ReadCounts[:min(100, len(stats.Node.ReadCounts))]
		reply(w, stats)
	})
	return mux
}

func reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the client may be gone
}

func (d *Devnet) putFaults(w http.ResponseWriter, r *http.Request) {
	var named struct{ Node, Comet, Provider, EVM *Fault }
	decoder := yaml.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
	decoder.KnownFields(true)
	err := decoder.Decode(&named)
	faults := d.Faults()
	for fault, given := range map[*Fault]*Fault{&faults.Node: named.Node, &faults.Comet: named.Comet, &faults.Provider: named.Provider, &faults.EVM: named.EVM} {
		if given != nil {
			*fault = *given
		}
	}
	if err == nil {
		err = d.SetFaults(faults)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	_ = yaml.NewEncoder(w).Encode(d.Faults())
}
