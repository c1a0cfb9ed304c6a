package devnet

import (
	"errors"
	"fmt"
	"time"
)

// Faults are the faults of each simulated upstream.
type Faults struct{ Node, Comet, Provider, EVM Fault }

// The kinds of outage. Both also close existing connections.
const (
	Refuse = "refuse" // nothing listens on the port
	Reset  = "reset"  // connections are accepted and reset
)

// A Fault is what is wrong with a server. The zero value means nothing. Faults apply to a request in the order of the
// fields.
type Fault struct {
	Outage       string        `yaml:",omitempty"`              // "", Refuse or Reset
	Latency      time.Duration `yaml:",omitempty"`              // added to every response
	Jitter       time.Duration `yaml:",omitempty"`              // maximum additional latency, evenly distributed
	Stall        bool          `yaml:",omitempty"`              // requests are read and never answered, and events are held back
	ErrorRate    float64       `yaml:"error_rate,omitempty"`    // share of requests, 0 to 1, that get ErrorStatus, with the server's own error text if it has one
	ErrorStatus  int           `yaml:"error_status,omitempty"`  // default 503; 429 is a provider's rate limit
	Nonsense     bool          `yaml:",omitempty"`              // 200 with a body that is not JSON
	Ahead        int64         `yaml:",omitempty"`              // CometBFT: number of blocks by which reported heights are too high
	EventsBehind int64         `yaml:"events_behind,omitempty"` // CometBFT: number of blocks by which WebSocket events are behind, as behind a balancer
	HangInfo     bool          `yaml:"hang_info,omitempty"`     // CometBFT: /abci_info is never answered, as while the execution client hangs
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

// SetFaults sets the faults of the main node, the main execution client and the provider. After an outage a server
// returns on the same port.
func (d *Devnet) SetFaults(f Faults) error {
	return errors.Join(d.nodes[0].SetFaults(f.Node, f.Comet), d.metadata.setFault(f.Provider), d.evm.SetFault(f.EVM))
}

// Faults returns the faults in force.
func (d *Devnet) Faults() Faults {
	return Faults{
		Node: d.nodes[0].rest.currentFault(), Comet: d.nodes[0].comet.currentFault(),
		Provider: d.metadata.currentFault(), EVM: d.evm.target.currentFault(),
	}
}
