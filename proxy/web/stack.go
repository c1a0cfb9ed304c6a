// Package web is the door of all public APIs: it makes a [Request] of each HTTP request, and passes it through the middleware to the
// function that serves its route.
//
// A request passes, in this order:
//
//  1. serve.go answers health checks, lets the fast lane answer (lane.go), and makes a Request (request.go), whose base path
//     (mount.go) and own parameters (parameters.go) it takes out of the URL;
//  2. engine.go passes it through Gin and the middleware, which Engine.handlers lists;
//  3. the API's function reads the blocks that the request names (heights.go) and the parameters of the route. It may reserve memory for a
//     body, and create a deadline whose timer starts only when a caller waits for it (upstream.LazyDeadline).
//
// admission.go applies keys and limits to requests, and limiter.go to events of streams. message.go does the same as the middleware for
// protocols other than HTTP. route.go has the routes that APIs pass to package proxy, which mounts them.
package web

import (
	"cmp"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/conn"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/record"
	"github.com/tipcache/tipcache/proxy/respond"
	"github.com/tipcache/tipcache/proxy/session"
	"github.com/tipcache/tipcache/upstream/account"
)

// Limits of a request. The http.Server must accept more than both together, so that a refusal has the form of the API.
const (
	MaxURL    = 8 << 10  // bytes of the request target
	MaxHeader = 16 << 10 // bytes of the names and values of the headers
)

// Settings are the operator's settings of the door, with their keys in the section http.
type Settings struct {
	RequestTimeout time.Duration `yaml:"-"` // maximum time from the request's arrival to the response
	CORSOrigins    []string      `yaml:"cors_origins" doc:"Origins whose pages may read responses in a browser, such as https://app.example. https://*.app.example allows the pages of all hosts with exactly one label before app.example. * allows every page. This reveals nothing that the page's author could not request directly. none allows no page."`
	SessionCookie  bool          `yaml:"session_cookie" doc:"Whether browsers keep their session in a cookie, so that pages of the same site never see an earlier block than before. Responses at the newest block are then private."`
}

// DefaultSettings returns the settings of an operator who sets none.
func DefaultSettings() Settings {
	return Settings{RequestTimeout: 15 * time.Second, CORSOrigins: []string{anyOrigin}}
}

// Options configure a Stack.
type Options struct {
	Settings
	Lane        Lane   // nil disables the fast lane
	LargestBody int64  // maximum length of a request body in bytes; default conn.LargestBody
	PublicURL   string // scheme and host of the URLs in responses; "" takes both from the request

	Keys         []limits.Key  // valid API keys; SetKeys replaces them
	Limits       limits.Limits // SetLimits replaces them
	SharedLimits limits.Shared

	Readiness *Readiness // for health checks by clients; nil means that the replica is always ready

	Record     record.Options // New sets Logger, Registerer and FromProxy
	Logger     *slog.Logger
	Registerer prometheus.Registerer
}

// A Stack has the middleware of all APIs. It owns no goroutine and needs no closing.
type Stack struct {
	Responder *respond.Responder
	cors
	*session.Clients
	*conn.Memory
	*conn.Revocations

	Admission *limits.Admission
	Recorder  *record.Recorder

	o       Options
	leaving atomic.Bool // the process drains
}

// New returns a Stack with the defaults filled in. bodies is nil only in tests.
func New(o Options, bodies *cache.Cache) *Stack {
	o = o.WithDefaults()
	cors := newCORS(o.CORSOrigins)
	s := &Stack{
		Responder: respond.New(bodies, cors.differs()),
		cors:      cors,
		o:         o,
		Admission: limits.New(o.SharedLimits, o.Logger, o.Registerer),
	}
	s.Admission.SetKeys(o.Keys)
	s.Admission.Limits.Store(&o.Limits)
	s.Clients = session.NewClients(s.Admission, o.SessionCookie)
	o.Record.Logger, o.Record.Registerer, o.Record.FromProxy = o.Logger, o.Registerer, s.IsFromProxy
	s.Recorder = record.New(o.Record)
	var memory *account.Account
	if bodies != nil {
		memory = bodies.Account()
	}
	s.Memory = conn.NewMemory(memory, o.LargestBody, s.Admission)
	if o.Lane != nil {
		o.Lane.Use(s)
	}
	s.Revocations = conn.NewRevocations(s.Admission, o.Logger, o.Registerer)
	return s
}

// Gauge registers a gauge named tipcache_proxy_NAME whose value is computed at each scrape.
func (s *Stack) Gauge(name, help string, value func() float64) {
	promauto.With(s.o.Registerer).NewGaugeFunc(prometheus.GaugeOpts{Name: "tipcache_proxy_" + name, Help: help}, value)
}

// Ready reports whether the replica is ready, and returns a channel that is closed when this changes.
func (s *Stack) Ready() (ready bool, changed <-chan struct{}) { return s.o.Readiness.State() }

// Logger returns the log of events.
func (s *Stack) Logger() *slog.Logger { return s.o.Logger }

// WithDefaults replaces zero values by defaults.
func (o Options) WithDefaults() Options {
	o.RequestTimeout = cmp.Or(o.RequestTimeout, DefaultSettings().RequestTimeout)
	o.LargestBody = cmp.Or(o.LargestBody, conn.LargestBody)
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if len(o.CORSOrigins) == 0 {
		o.CORSOrigins = DefaultSettings().CORSOrigins
	}
	return o
}
