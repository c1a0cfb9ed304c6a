package main

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// newRegistry has what every process tells of itself.
func newRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), buildInfo())
	return r
}

// buildInfo tells in metrics what program runs: always 1, what counts is the labels.
func buildInfo() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tipcache_build_info", Help: "Version of tipcache and of the Go it was built with.",
		ConstLabels: prometheus.Labels{"version": version(), "goversion": runtime.Version()},
	}, func() float64 { return 1 })
}
