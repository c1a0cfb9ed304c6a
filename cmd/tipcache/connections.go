package main

import (
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"golang.org/x/net/netutil"
)

// limited accepts at most so many connections at once; 0 is no limit. Those
// beyond wait in the kernel's queue.
func limited(l net.Listener, most int) net.Listener {
	if most == 0 {
		return l
	}
	return netutil.LimitListener(l, most)
}

// countConnections shows how near the public listener is to its limit: at the
// limit, nothing else does.
func countConnections(r prometheus.Registerer, most int) func(net.Conn, http.ConnState) {
	f := promauto.With(r)
	f.NewGauge(prometheus.GaugeOpts{Name: "tipcache_http_connections_limit", Help: "Connections of clients that are accepted at once; 0 is no limit."}).Set(float64(most))
	connections := f.NewGauge(prometheus.GaugeOpts{Name: "tipcache_http_connections", Help: "Connections of clients, idle ones included."})
	return func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			connections.Inc()
		case http.StateClosed, http.StateHijacked:
			connections.Dec()
		}
	}
}
