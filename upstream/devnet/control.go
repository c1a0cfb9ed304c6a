package devnet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
)

// Stats are what the servers of a devnet were asked.
type Stats struct {
	Height   int64     `json:"height"`
	Node     NodeStats `json:"node"`
	Provider int64     `json:"provider"` // requests at the metadata provider
	EVM      EVMStats  `json:"evm"`
}

// Stats are counted since the start or the last ResetStats. They are those of
// the main node and execution client; others have their own.
func (d *Devnet) Stats() Stats {
	return Stats{Height: d.Height(), Node: d.nodes[0].Stats(), Provider: d.metadata.requests.Load(), EVM: d.evm.Stats()}
}

// ResetStats begins to count anew.
func (d *Devnet) ResetStats() {
	d.nodes[0].ResetStats()
	d.metadata.requests.Store(0)
	d.evm.ResetStats()
}

// controlHandler serves the requests that control a devnet:
//
//	GET    /devnet/faults             the faults in force
//	PUT    /devnet/faults             replaces the faults of the targets it names
//	POST   /devnet/advance?blocks=N   makes blocks (default 1)
//	POST   /devnet/setback?blocks=N   takes the newest blocks away (default 1)
//	POST   /devnet/halt, /resume      stops and restarts the making of blocks
//	GET    /devnet/stats?top=N        what was asked, the N most frequent questions (default 100)
//	DELETE /devnet/stats              counts anew
func (d *Devnet) controlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /devnet/faults", func(w http.ResponseWriter, r *http.Request) { reply(w, d.Faults()) })
	mux.HandleFunc("PUT /devnet/faults", d.putFaults)
	mux.HandleFunc("POST /devnet/advance", d.after(d.Advance))
	mux.HandleFunc("POST /devnet/setback", d.after(d.SetBack))
	mux.HandleFunc("POST /devnet/halt", d.after(func(int64) { d.Halt() }))
	mux.HandleFunc("POST /devnet/resume", d.after(func(int64) { d.Resume() }))
	mux.HandleFunc("GET /devnet/stats", d.getStats)
	mux.HandleFunc("DELETE /devnet/stats", d.after(func(int64) { d.ResetStats() }))
	return mux
}

func reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the client may be gone
}

func (d *Devnet) putFaults(w http.ResponseWriter, r *http.Request) {
	faults := d.Faults()
	decoder := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<10))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&faults)
	if err == nil {
		err = d.SetFaults(faults)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	reply(w, d.Faults())
}

// after acts on the parameter blocks and answers with the height after that.
func (d *Devnet) after(act func(blocks int64)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if blocks, ok := number(w, r, "blocks", "1"); ok {
			act(blocks)
			reply(w, map[string]int64{"height": d.Height()})
		}
	}
}

func (d *Devnet) getStats(w http.ResponseWriter, r *http.Request) {
	if top, ok := number(w, r, "top", "100"); ok {
		stats := d.Stats()
		stats.Node.Asked = stats.Node.Asked[:min(int(top), len(stats.Node.Asked))]
		reply(w, stats)
	}
}

// maxNumber bounds what one call to the control server does.
const maxNumber = 100_000

// number is a parameter of the query, or the default if it is absent. Where it is
// false, the request has been answered with an error.
func number(w http.ResponseWriter, r *http.Request, name, otherwise string) (int64, bool) {
	n, err := strconv.ParseUint(cmp.Or(r.URL.Query().Get(name), otherwise), 10, 32)
	if err != nil || n > maxNumber {
		http.Error(w, fmt.Sprintf("%s must be a number up to %d", name, maxNumber), http.StatusBadRequest)
		return 0, false
	}
	return int64(n), true //nolint:gosec // it is bounded
}
