package devnet

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// Faults are what is wrong with each of the simulated origins.
type Faults struct {
	Node     Fault `json:"node"`
	Comet    Fault `json:"comet"`
	Provider Fault `json:"provider"`
	EVM      Fault `json:"evm"`
}

// The kinds of outage. Both also drop the connections that exist.
const (
	Refuse = "refuse" // nothing listens on the port
	Reset  = "reset"  // connections are accepted and reset
)

// A Fault is what is wrong with one server. The zero value is a healthy one.
// What comes first in the struct happens first to a request.
type Fault struct {
	Outage       string        `json:"outage,omitempty"`        // "", Refuse or Reset
	Latency      time.Duration `json:"-"`                       // added to every answer
	Jitter       time.Duration `json:"-"`                       // at most this much more, evenly spread
	Stall        bool          `json:"stall,omitempty"`         // requests are read and never answered; events are held back
	ErrorRate    float64       `json:"error_rate,omitempty"`    // the share of requests, 0 to 1, that get ErrorStatus, as the server says it where it has words of its own
	ErrorStatus  int           `json:"error_status,omitempty"`  // default 503; 429 is how a provider limits its clients
	Nonsense     bool          `json:"nonsense,omitempty"`      // 200 with a body that is no JSON
	Ahead        int64         `json:"ahead,omitempty"`         // for CometBFT: the heights it tells of are so many above the truth
	EventsBehind int64         `json:"events_behind,omitempty"` // for CometBFT: the blocks that its socket tells of are so many below the truth, as behind a balancer
	Unindexed    bool          `json:"unindexed,omitempty"`     // for CometBFT: no transaction is found, as those of a block in whose commit the node was stopped
	HangInfo     bool          `json:"hang_info,omitempty"`     // for CometBFT: /abci_info is never answered, as while the execution client hangs
	DropLogs     bool          `json:"drop_logs,omitempty"`     // for the execution client: ranges of blocks have no logs; a block's by its hash are all there
	WrongHashes  bool          `json:"wrong_hashes,omitempty"`  // for the execution client: all blocks have other hashes, in headers, children and logs alike
}

func (f Fault) validate() error {
	switch {
	case f.Outage != "" && f.Outage != Refuse && f.Outage != Reset:
		return fmt.Errorf("devnet: outage %q, want %q or %q", f.Outage, Refuse, Reset)
	case f.ErrorRate < 0 || f.ErrorRate > 1:
		return fmt.Errorf("devnet: error rate %v, want 0 to 1", f.ErrorRate)
	case f.ErrorStatus != 0 && (f.ErrorStatus < 200 || f.ErrorStatus > 599):
		return fmt.Errorf("devnet: error status %d, want 200 to 599", f.ErrorStatus)
	case f.Latency < 0 || f.Jitter < 0:
		return errors.New("devnet: a duration is negative")
	case f.Ahead < 0 || f.EventsBehind < 0:
		return errors.New("devnet: ahead or events behind is negative")
	}
	return nil
}

// A span is a duration such as "150ms" in JSON.
type span time.Duration

// MarshalText writes it as time.Duration does.
func (s span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }

// UnmarshalText reads what time.ParseDuration does.
func (s *span) UnmarshalText(text []byte) error {
	d, err := time.ParseDuration(string(text))
	*s = span(d)
	return err
}

type plainFault Fault

// A faultJSON is a Fault as JSON has it.
type faultJSON struct {
	Latency span `json:"latency,omitzero"`
	Jitter  span `json:"jitter,omitzero"`
	plainFault
}

// MarshalJSON writes durations as "150ms" and leaves out what is healthy.
func (f Fault) MarshalJSON() ([]byte, error) {
	return json.Marshal(faultJSON{span(f.Latency), span(f.Jitter), plainFault(f)})
}

// UnmarshalJSON replaces the whole fault: what is left out is healthy.
func (f *Fault) UnmarshalJSON(data []byte) error {
	var j faultJSON
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&j)
	*f = Fault(j.plainFault)
	f.Latency, f.Jitter = time.Duration(j.Latency), time.Duration(j.Jitter)
	return err
}

// SetFaults puts faults in force on the main node, the main execution client and
// the provider. A server that is out comes back on the same port.
func (d *Devnet) SetFaults(f Faults) error {
	for name, fault := range map[string]Fault{"node": f.Node, "comet": f.Comet, "provider": f.Provider, "evm": f.EVM} {
		if err := fault.validate(); err != nil {
			return fmt.Errorf("%s: %w", name, err) // before any is in force
		}
	}
	if err := d.nodes[0].SetFaults(f.Node, f.Comet); err != nil {
		return err
	}
	return errors.Join(d.metadata.setFault(f.Provider), d.evm.SetFault(f.EVM))
}

// Faults are the faults in force.
func (d *Devnet) Faults() Faults {
	return Faults{
		Node: d.nodes[0].rest.currentFault(), Comet: d.nodes[0].comet.currentFault(),
		Provider: d.metadata.currentFault(), EVM: d.evm.target.currentFault(),
	}
}
