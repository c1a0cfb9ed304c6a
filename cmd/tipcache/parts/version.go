package parts

import (
	"runtime"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/tipcache/tipcache/proxy/docs"
	"github.com/tipcache/tipcache/upstream"
)

// NewRegistry returns a registry with the metrics of the process.
func NewRegistry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), upstream.Panics)
	promauto.With(r).NewGauge(prometheus.GaugeOpts{
		Name: "tipcache_build_info", Help: "Version of tipcache and of Go. The value is always 1.",
		ConstLabels: prometheus.Labels{"version": Version(), "goversion": runtime.Version()},
	}).Set(1)
	return r
}

// Version returns the version of tipcache. A build between two releases adds the commit, as in
// 1.0.0+0123456789ab, and the suffix .dirty if files differed.
func Version() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(info)
}

func versionOf(info *debug.BuildInfo) string {
	if info == nil || info.Main.Version == "v"+docs.Version {
		return docs.Version
	}
	built := map[string]string{}
	for _, s := range info.Settings {
		built[s.Key] = s.Value
	}
	version := docs.Version
	if revision := built["vcs.revision"]; revision != "" {
		version += "+" + revision[:min(12, len(revision))]
		if built["vcs.modified"] == "true" {
			version += ".dirty"
		}
	}
	return version
}
