package devnet

import (
	"errors"
	"fmt"
	"time"
)

// Faults are what is wrong with each of the simulated origins.
type Faults struct{ Node, Comet, Provider, EVM Fault }

// The kinds of outage. Both also drop the connections that exist.
const (
	Refuse = "refuse" // nothing listens on the port
	Reset  = "reset"  // connections are accepted and reset
)

// A Fault is what is wrong with one server. The zero value is a healthy one.
// What comes first in the struct happens first to a request.
type Fault struct {
	Outage       string        `yaml:",omitempty"`              // "", Refuse or Reset
	Latency      time.Duration `yaml:",omitempty"`              // added to every answer
	Jitter       time.Duration `yaml:",omitempty"`              // at most this much more, evenly spread
	Stall        bool          `yaml:",omitempty"`              // requests are read and never answered; events are held back
	ErrorRate    float64       `yaml:"error_rate,omitempty"`    // the share of requests, 0 to 1, that get ErrorStatus, as the server says it where it has words of its own
	ErrorStatus  int           `yaml:"error_status,omitempty"`  // default 503; 429 is how a provider limits its clients
	Nonsense     bool          `yaml:",omitempty"`              // 200 with a body that is no JSON
	Ahead        int64         `yaml:",omitempty"`              // for CometBFT: the heights it tells of are so many above the truth
	EventsBehind int64         `yaml:"events_behind,omitempty"` // for CometBFT: the blocks that its socket tells of are so many below the truth, as behind a balancer
	HangInfo     bool          `yaml:"hang_info,omitempty"`     // for CometBFT: /abci_info is never answered, as while the execution client hangs
}

func (f Fault) validate() error {
	switch {
	case f.Outage != "" && f.Outage != Refuse && f.Outage != Reset:
		return fmt.Errorf("devnet: outage %q, want %q or %q", f.Outage, Refuse, Reset)
	case f.ErrorStatus != 0 && (f.ErrorStatus < 200 || f.ErrorStatus > 599):
		return fmt.Errorf("devnet: error status %d, want 200 to 599", f.ErrorStatus)
	}
	return nil
}

// SetFaults puts faults in force on the main node, the main execution client and
// the provider. A server that is out comes back on the same port.
func (d *Devnet) SetFaults(f Faults) error {
	return errors.Join(d.nodes[0].SetFaults(f.Node, f.Comet), d.metadata.setFault(f.Provider), d.evm.SetFault(f.EVM))
}

// Faults are the faults in force.
func (d *Devnet) Faults() Faults {
	return Faults{
		Node: d.nodes[0].rest.currentFault(), Comet: d.nodes[0].comet.currentFault(),
		Provider: d.metadata.currentFault(), EVM: d.evm.target.currentFault(),
	}
}
