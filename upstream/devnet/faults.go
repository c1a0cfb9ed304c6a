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

func (f Faults) validate() error {
	for name, fault := range map[string]Fault{"node": f.Node, "comet": f.Comet, "provider": f.Provider, "evm": f.EVM} {
		if err := fault.validate(); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// The ways of being out. Both also drop the connections that exist.
const (
	Refuse = "refuse" // nothing listens on the port
	Reset  = "reset"  // connections are accepted and reset
)

// A Fault is what is wrong with one server. The zero value is a healthy one.
// What comes first in the struct happens first to a request.
type Fault struct {
	Outage      string        // "", Refuse or Reset
	Latency     time.Duration // added to every answer
	Jitter      time.Duration // at most this much more, evenly spread
	Stall       bool          // requests are read and never answered; events are held back
	ErrorRate   float64       // the share of requests, 0 to 1, that get ErrorStatus, as the server says it where it has words of its own
	ErrorStatus int           // default 503; 429 is how a provider limits its clients
	RetryAfter  time.Duration // sent with the error, in whole seconds; 0: not sent
	Nonsense    bool          // 200 with a body that is no JSON
	Ahead       int64         // for CometBFT: the heights it tells of are so many above the truth
	HangInfo    bool          // for CometBFT: /abci_info is never answered, as while the execution client hangs
}

func (f Fault) validate() error {
	switch {
	case f.Outage != "" && f.Outage != Refuse && f.Outage != Reset:
		return fmt.Errorf("devnet: outage %q, want %q or %q", f.Outage, Refuse, Reset)
	case f.ErrorRate < 0 || f.ErrorRate > 1:
		return fmt.Errorf("devnet: error rate %v, want 0 to 1", f.ErrorRate)
	case f.ErrorStatus != 0 && (f.ErrorStatus < 200 || f.ErrorStatus > 599):
		return fmt.Errorf("devnet: error status %d, want 200 to 599", f.ErrorStatus)
	case f.Latency < 0 || f.Jitter < 0 || f.RetryAfter < 0:
		return errors.New("devnet: a duration is negative")
	case f.Ahead < 0:
		return errors.New("devnet: ahead is negative")
	}
	return nil
}

// faultJSON is a Fault as JSON has it, with durations such as "150ms".
type faultJSON struct {
	Outage      string  `json:"outage,omitempty"`
	Latency     string  `json:"latency,omitempty"`
	Jitter      string  `json:"jitter,omitempty"`
	Stall       bool    `json:"stall,omitempty"`
	ErrorRate   float64 `json:"error_rate,omitempty"`
	ErrorStatus int     `json:"error_status,omitempty"`
	RetryAfter  string  `json:"retry_after,omitempty"`
	Nonsense    bool    `json:"nonsense,omitempty"`
	Ahead       int64   `json:"ahead,omitempty"`
	HangInfo    bool    `json:"hang_info,omitempty"`
}

// MarshalJSON writes durations as "150ms" and leaves out what is healthy.
func (f Fault) MarshalJSON() ([]byte, error) {
	return json.Marshal(faultJSON{
		f.Outage, text(f.Latency), text(f.Jitter), f.Stall, f.ErrorRate, f.ErrorStatus, text(f.RetryAfter), f.Nonsense, f.Ahead, f.HangInfo,
	})
}

// UnmarshalJSON replaces the whole fault: what is left out is healthy.
func (f *Fault) UnmarshalJSON(data []byte) error {
	var j faultJSON
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&j); err != nil {
		return err
	}
	*f = Fault{Outage: j.Outage, Stall: j.Stall, ErrorRate: j.ErrorRate, ErrorStatus: j.ErrorStatus, Nonsense: j.Nonsense, Ahead: j.Ahead, HangInfo: j.HangInfo}
	for field, value := range map[*time.Duration]string{&f.Latency: j.Latency, &f.Jitter: j.Jitter, &f.RetryAfter: j.RetryAfter} {
		if value == "" {
			continue
		}
		d, err := time.ParseDuration(value)
		if err != nil {
			return err
		}
		*field = d
	}
	return nil
}

func text(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}

// SetFaults puts faults in force on the main node, the main execution client and
// the provider. A server that is out comes back on the same port.
func (d *Devnet) SetFaults(f Faults) error {
	if err := f.validate(); err != nil {
		return err
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
