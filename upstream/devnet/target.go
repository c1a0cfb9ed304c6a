package devnet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Limits of the node's servers.
const (
	maxHeader   = 8 << 10
	idleTimeout = 10 * time.Second // of connections
)

// A target is an HTTP server that can fail. It can stop, and return on the same port.
type target struct {
	idle     time.Duration // 0 means no limit
	handler  http.Handler
	h2c      bool                    // speaks only HTTP/2, without TLS
	words    func(status int) []byte // JSON body of an error; nil means plain text
	requests atomic.Int64
	notice   // signaled when the fault changes
	fault    atomic.Pointer[Fault]
	addr     atomic.Pointer[string] // with the actual port, once open

	life   sync.Mutex // held while opening, closing and changing faults; never by handlers
	opened bool       // open was called and close was not
	stop   func()     // stops the server, closes its connections and waits; nil while it is stopped

	handlers sync.RWMutex // held for reading by every handler
}

func newTarget(addr string, idle time.Duration, h http.Handler) *target {
	t := &target{idle: idle, handler: h}
	t.addr.Store(new(cmp.Or(addr, "127.0.0.1:0")))
	t.fault.Store(&Fault{})
	return t
}

// open starts serving. If the fault is Refuse, it only chooses the port.
func (t *target) open() error {
	t.life.Lock()
	defer t.life.Unlock()
	if err := t.listen(); err != nil {
		return err
	}
	t.opened = true
	if t.fault.Load().Outage == Refuse {
		t.shut()
	}
	return nil
}

// close stops serving and waits for the handlers.
func (t *target) close() {
	t.life.Lock()
	defer t.life.Unlock()
	t.opened = false
	t.shut()
}

// openAll opens all targets or none.
func openAll(targets ...*target) error {
	for _, t := range targets {
		if err := t.open(); err != nil {
			closeAll(targets...)
			return err
		}
	}
	return nil
}

func closeAll(targets ...*target) {
	for _, t := range targets {
		t.close()
	}
}

func (t *target) url() string { return "http://" + *t.addr.Load() }

// listen starts a server on the target's address.
func (t *target) listen() error {
	listener, err := t.listenAt(*t.addr.Load())
	if err != nil {
		return err
	}
	t.addr.Store(new(listener.Addr().String()))
	ctx, cancel := context.WithCancel(context.Background())
	server := &http.Server{
		Handler: t, IdleTimeout: t.idle, MaxHeaderBytes: maxHeader, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }, ConnContext: t.reset,
	}
	if t.h2c {
		server.Protocols = new(http.Protocols)
		server.Protocols.SetUnencryptedHTTP2(true)
	}
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) }) // always ErrServerClosed
	t.stop = func() {
		cancel()
		_ = server.Close() // the listener is closed either way
		serving.Wait()
		t.handlers.Lock() // wait for the handlers
		defer t.handlers.Unlock()
	}
	return nil
}

// listenAt listens at an address. After an outage, it retries while an outgoing connection uses the port.
func (t *target) listenAt(addr string) (net.Listener, error) {
	var config net.ListenConfig
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		listener, err := config.Listen(context.Background(), "tcp", addr)
		if !t.opened || !errors.Is(err, syscall.EADDRINUSE) || time.Now().After(deadline) {
			return listener, err
		}
	}
}

func (t *target) shut() {
	if t.stop != nil {
		t.stop()
		t.stop = nil
	}
}

// setFault sets the fault. Stalled requests are dropped.
func (t *target) setFault(f Fault) error {
	if err := f.validate(); err != nil {
		return err
	}
	t.life.Lock()
	defer t.life.Unlock()
	before := t.fault.Swap(&f)
	t.signal()
	if !t.opened || before.Outage == f.Outage {
		return nil
	}
	t.shut()
	if f.Outage == Refuse {
		return nil
	}
	return t.listen()
}

// ServeHTTP applies the fault, then calls the handler.
func (t *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	t.handlers.RLock()
	defer t.handlers.RUnlock()
	t.requests.Add(1)
	changed := t.changes()
	f := t.fault.Load()
	d := f.Latency
	if f.Jitter > 0 {
		d += rand.N(f.Jitter)
	}
	if d > 0 {
		select {
		case <-r.Context().Done():
			panic(http.ErrAbortHandler)
		case <-time.After(d):
		}
	}
	switch {
	case f.Stall || f.HangInfo && called(r) == "/abci_info":
		select {
		case <-r.Context().Done():
		case <-changed:
		}
		panic(http.ErrAbortHandler)
	case f.ErrorRate > 0 && rand.Float64() < f.ErrorRate:
		f.fail(w, t.words)
	case f.Nonsense:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"contracts":[{"address":`))
	default:
		t.handler.ServeHTTP(w, r)
	}
}

// fail sends the error status, with the server's own text if it has one.
func (f Fault) fail(w http.ResponseWriter, words func(status int) []byte) {
	status := cmp.Or(f.ErrorStatus, http.StatusServiceUnavailable)
	if words == nil {
		http.Error(w, "simulated failure", status)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(words(status))
}

// reset closes a new connection abruptly while the fault is Reset.
func (t *target) reset(ctx context.Context, conn net.Conn) context.Context {
	if t.fault.Load().Outage == Reset {
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0) // makes Close a reset
		}
		_ = conn.Close()
	}
	return ctx
}

// Faults are the faults of each simulated upstream.
type Faults struct{ Node, Comet, Provider, EVM Fault }

// The kinds of outage. Both also close existing connections.
const (
	Refuse = "refuse" // nothing listens on the port
	Reset  = "reset"  // connections are accepted and reset
)

// A Fault is what is wrong with a server. The zero value means nothing. Faults apply to a request in the order of the
// fields, HangInfo like Stall.
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
	case !(f.ErrorRate >= 0 && f.ErrorRate <= 1): // NaN, too
		return fmt.Errorf("devnet: error rate %v, want a share of 0 to 1", f.ErrorRate)
	}
	return nil
}

// SetFaults sets the faults of the main node, the main execution client and the provider. After an outage a server
// returns on the same port. If a fault is invalid, nothing changes.
func (d *Devnet) SetFaults(f Faults) error {
	if err := errors.Join(f.Node.validate(), f.Comet.validate(), f.Provider.validate(), f.EVM.validate()); err != nil {
		return err
	}
	return errors.Join(d.node.SetFaults(f.Node, f.Comet), d.metadata.setFault(f.Provider), d.evm.SetFault(f.EVM))
}

// Faults returns the faults in force.
func (d *Devnet) Faults() Faults {
	return Faults{
		Node: *d.node.rest.fault.Load(), Comet: *d.node.comet.fault.Load(),
		Provider: *d.metadata.fault.Load(), EVM: *d.evm.target.fault.Load(),
	}
}
