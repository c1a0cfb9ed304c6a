package node

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/node/queue"
)

// metrics are the pool's Prometheus metrics. The label node is host:port.
type metrics struct {
	own *prometheus.Registry // contains all of them

	seconds    *prometheus.HistogramVec // node, cost
	answers    *prometheus.CounterVec   // node, reason
	shed       *prometheus.CounterVec   // node
	reconnects *prometheus.CounterVec   // node
	epochs     prometheus.Counter
}

func newMetrics(p *Pool) *metrics {
	own := prometheus.NewRegistry()
	own.MustRegister(gauges{p})
	f := promauto.With(own)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return f.NewCounterVec(prometheus.CounterOpts{Name: "tipcache_node_" + name, Help: help}, labels)
	}
	return &metrics{
		own: own,
		seconds: f.NewHistogramVec(upstream.Durations("tipcache_node_request_duration_seconds",
			"Duration of node requests in seconds, including failed ones and without queueing, by cost class.",
			[]float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5}), []string{"node", "cost"}),
		answers:    counter("answers_total", "Requests to a node, by the reason of the answer or the kind of failure.", "node", "reason"),
		shed:       counter("shed_total", "Requests that were not sent to a node because they waited too long in its queue.", "node"),
		reconnects: counter("websocket_reconnects_total", "Subscriptions to block headers after the first.", "node"),
		epochs:     counter("epochs_total", "Number of chain resets and rollbacks, each of which dropped all cached entries.").WithLabelValues(),
	}
}

func (m *metrics) forget(node string) {
	for _, v := range []interface{ DeletePartialMatch(prometheus.Labels) int }{m.seconds, m.answers, m.shed, m.reconnects} {
		v.DeletePartialMatch(prometheus.Labels{"node": node})
	}
}

func (m *metrics) countRequest(node string, r Request, start time.Time, answer *Answer, err error) {
	m.seconds.WithLabelValues(node, r.Cost.String()).Observe(time.Since(start).Seconds())
	m.answers.WithLabelValues(node, labelOf(answer, err)).Inc()
}

func labelOf(answer *Answer, err error) string {
	if err == nil {
		return answer.Reason.String()
	}
	switch kind := upstream.KindOf(err); {
	case errors.Is(err, errTipRefused):
		return "tip_refused"
	case errors.Is(err, context.Canceled):
		return "canceled"
	case kind == 0:
		return upstream.Timeout.String()
	default:
		return kind.String()
	}
}

// gauges collects the gauges of a pool on demand.
type gauges struct{ pool *Pool }

var (
	tipDesc      = desc("tip_height", "Height of the newest known block. 0 means unknown.")
	intervalDesc = desc("block_interval_seconds", "Measured time between two blocks, in seconds.")
	inFlightDesc = desc("in_flight", "Requests in flight at a node.", "node")
	limitDesc    = desc("limit", "Maximum number of concurrent requests at a node. If it adapts, a request for a single item counts as half a request.", "node")
	waitDesc     = desc("expected_wait_seconds", "Expected time until a node answers a new request for a single item, in seconds.", "node")
	queueDesc    = desc("queue_length", "Requests queued for a node.", "node")
	lagDesc      = desc("lag_blocks", "Number of blocks that a node is behind the tip.", "node")
	wrongDesc    = desc("wrong_chain", "1 while a node is not used because it serves another chain or is on another fork.", "node")
	knownDesc    = desc("tip_known", "1 while a height source answers, so that freshness is measured in blocks. Absent without nodes.")
	ageDesc      = desc("block_age_seconds", "Age of the newest block header of a node, in seconds.", "node")
	heightDesc   = desc("height", "Height of the newest block of a node.", "node")
	lowestDesc   = desc("lowest_height", "Reads below this block prefer other nodes, because the node may have pruned them. 0 means unknown.", "node")
	asideDesc    = desc("source_aside", "1 while heights that a node reports, by CometBFT or its REST API, are ignored as implausible.", "node")
	lateDesc     = desc("source_late", "1 while a node's CometBFT announces blocks late, so that the height is read from the REST API.", "node")
	reachDesc    = desc("tip_out_of_reach", "1 while the tip is far above the newest block of every node, so that reads use older blocks.")
	doubtDesc    = desc("tip_unconfirmed", "1 while a node contradicts the tip, so that responses are marked as unconfirmed.")
	upDesc       = desc("answering", "1 if a node's REST API answered within the last 15 seconds, and has not failed every request for three seconds since.", "node")
	rpcDesc      = desc("rpc_answering", "1 while the CometBFT RPC of a node responds. Absent for nodes without one.", "node")
	grpcDesc     = desc("grpc_answering", "1 while the gRPC server of a node responds. Absent for nodes without one.", "node")
	indexDesc    = desc("tx_index", "1 if the transaction index of a node is on, 0 if it is off.", "node")
	keysDesc     = desc("page_keys_mixed", "1 while page keys are passed to nodes unchanged although some nodes read them raw and others in base64.")
	breakerDesc  = desc("breaker_state", "Circuit breaker of a node: 0 closed, 1 half-open, 2 open.", "node")
)

// descs are the descriptions of all gauges, which desc collects.
var descs []*prometheus.Desc

func desc(name, help string, labels ...string) *prometheus.Desc {
	d := prometheus.NewDesc("tipcache_node_"+name, help, labels, nil)
	descs = append(descs, d)
	return d
}

// Describe implements prometheus.Collector.
func (g gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (g gauges) Collect(ch chan<- prometheus.Metric) {
	tip := g.pool.Tip()
	gauge(ch, tipDesc, float64(tip.Height))
	gauge(ch, intervalDesc, tip.Interval.Seconds())
	nodes := g.pool.endpoints()
	if len(nodes) > 0 {
		flag(ch, knownDesc, tip.Known)
	}
	flag(ch, doubtDesc, tip.Unconfirmed)
	flag(ch, keysDesc, g.pool.MixedKeys())
	var newest int64 // newest height of all nodes
	for _, e := range nodes {
		v := e.snapshot()
		g.collect(ch, e, v, tip)
		if !v.Foreign() {
			newest = max(newest, v.Height)
		}
	}
	flag(ch, reachDesc, newest > 0 && tip.Height-newest > maxWaitLag)
}

func (g gauges) collect(ch chan<- prometheus.Metric, e *endpoint, v view, tip Tip) {
	load := e.queue.Load()
	gauge(ch, inFlightDesc, float64(load.InFlight), e.name)
	gauge(ch, limitDesc, load.Limit, e.name)
	gauge(ch, queueDesc, float64(load.Waiting), e.name)
	gauge(ch, waitDesc, e.queue.Expected(queue.Request{Cost: Cheap}).Seconds(), e.name)
	flag(ch, wrongDesc, v.Foreign(), e.name)
	flag(ch, upDesc, v.answering() && e.restServer.outage.Cause() == nil, e.name)
	flag(ch, asideDesc, v.Distrusted, e.name)
	flag(ch, lateDesc, v.Late, e.name)
	if state := e.rpcState(v); state != stateOff {
		flag(ch, rpcDesc, state == stateOK, e.name)
	}
	if state := e.grpcState(g.pool.ChainID()); state != stateOff {
		flag(ch, grpcDesc, state == stateOK, e.name)
	}
	if v.TxIndex != "" {
		flag(ch, indexDesc, v.TxIndex == "on", e.name)
	}
	gauge(ch, breakerDesc, float64(e.restServer.breaker.State()), e.name)
	gauge(ch, lowestDesc, float64(v.Lowest), e.name)
	if !v.BlockTime.IsZero() {
		gauge(ch, ageDesc, time.Since(v.BlockTime).Seconds(), e.name)
	}
	if v.Height > 0 {
		gauge(ch, heightDesc, float64(v.Height), e.name)
		gauge(ch, lagDesc, float64(max(tip.Height-v.Height, 0)), e.name)
	}
}

func gauge(ch chan<- prometheus.Metric, d *prometheus.Desc, v float64, labels ...string) {
	ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func flag(ch chan<- prometheus.Metric, d *prometheus.Desc, on bool, labels ...string) {
	v := 0.0
	if on {
		v = 1
	}
	gauge(ch, d, v, labels...)
}
