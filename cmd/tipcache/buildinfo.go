package main

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
)

// buildInfo tells in metrics what program runs: always 1, what counts is the labels.
func buildInfo() prometheus.Collector {
	return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "tipcache_build_info", Help: "Version of tipcache and of the Go it was built with.",
		ConstLabels: prometheus.Labels{"version": version(), "goversion": runtime.Version()},
	}, func() float64 { return 1 })
}
