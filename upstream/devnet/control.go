package devnet

import (
	"encoding/json"
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

// shownQuestions is how many questions the control server lists unless told.
const shownQuestions = 100

// controlHandler serves the levers:
//
//	GET    /devnet/faults             the faults in force
//	PUT    /devnet/faults             replaces the faults of the targets it names
//	POST   /devnet/advance?blocks=N   makes blocks (default 1)
//	POST   /devnet/setback?blocks=N   takes the newest blocks away (default 1)
//	POST   /devnet/halt, /resume      stops and restarts the making of blocks
//	GET    /devnet/stats?top=N        what was asked, the N most frequent questions
//	DELETE /devnet/stats              counts anew
func (d *Devnet) controlHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /devnet/faults", func(w http.ResponseWriter, r *http.Request) { reply(w, d.Faults()) })
	mux.HandleFunc("PUT /devnet/faults", d.putFaults)
	mux.HandleFunc("POST /devnet/advance", d.blocks(d.Advance))
	mux.HandleFunc("POST /devnet/setback", d.blocks(d.SetBack))
	mux.HandleFunc("POST /devnet/halt", func(w http.ResponseWriter, r *http.Request) { d.Halt(); d.getHeight(w, r) })
	mux.HandleFunc("POST /devnet/resume", func(w http.ResponseWriter, r *http.Request) { d.Resume(); d.getHeight(w, r) })
	mux.HandleFunc("GET /devnet/stats", d.getStats)
	mux.HandleFunc("DELETE /devnet/stats", func(w http.ResponseWriter, r *http.Request) { d.ResetStats(); d.getHeight(w, r) })
	return mux
}

func reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(value) // the client may be gone
}

func (d *Devnet) getHeight(w http.ResponseWriter, _ *http.Request) {
	reply(w, map[string]int64{"height": d.Height()})
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

// maxBlocks bounds what one call to the control server does.
const maxBlocks = 100_000

// blocks moves the chain by the parameter blocks.
func (d *Devnet) blocks(move func(int64)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		blocks, err := numberOr(r, "blocks", 1)
		if err != nil || blocks < 0 || blocks > maxBlocks {
			http.Error(w, "blocks must be a number up to "+strconv.Itoa(maxBlocks), http.StatusBadRequest)
			return
		}
		move(blocks)
		d.getHeight(w, r)
	}
}

func (d *Devnet) getStats(w http.ResponseWriter, r *http.Request) {
	top, err := numberOr(r, "top", shownQuestions)
	if err != nil || top < 0 {
		http.Error(w, "top must be a number", http.StatusBadRequest)
		return
	}
	stats := d.Stats()
	stats.Node.Asked = stats.Node.Asked[:min(int(top), len(stats.Node.Asked))]
	reply(w, stats)
}

// numberOr is a parameter of the query, or the default if it is absent.
func numberOr(r *http.Request, name string, otherwise int64) (int64, error) {
	text := r.URL.Query().Get(name)
	if text == "" {
		return otherwise, nil
	}
	return strconv.ParseInt(text, 10, 64)
}
