package probe

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// A Report has the results of a run.
type Report struct {
	Chain     string    `json:"chain"` // "" if unknown
	Began     time.Time `json:"began"`
	Seconds   float64   `json:"seconds"`
	Rate      float64   `json:"rate"`   // reads per second and endpoint
	Newest    int64     `json:"newest"` // newest block that any server named; 0 for none
	Endpoints []Result  `json:"endpoints"`
}

// A Result has the results of one endpoint. Shares are between 0 and 1.
type Result struct {
	Name         string  `json:"name"`
	API          string  `json:"api"`
	Samples      int     `json:"samples"`
	Failures     int     `json:"failures"`
	FailureShare float64 `json:"failure_share"`
	Problems     []Count `json:"problems"` // of the failures, the most frequent first
	Named        int     `json:"named"`    // samples that name their block
	Silent       int     `json:"silent"`   // samples that do not, although responses to the query could

	Behind        Behind      `json:"behind"`
	StepsBackward Steps       `json:"steps_backward"`
	Announced     Announced   `json:"announced"`
	Latency       Latency     `json:"latency_ms"`
	Pinned        Comparison  `json:"pinned"`  // with a read of the endpoint at the block that the response named
	Against       *Comparison `json:"against"` // with a read of the trusted node at that block; null for none

	points []point
}

// A Count is the number of failures of one kind.
type Count struct {
	Problem string `json:"problem"`
	Samples int    `json:"samples"`
}

// Behind says how far samples were behind the newest block that any server had named before the sample was sent. A sample whose
// response names no block does not count.
type Behind struct {
	At0  float64 `json:"share_at_0"`
	At1  float64 `json:"share_at_1"`
	At2  float64 `json:"share_at_2"`
	More float64 `json:"share_above_2"`
	Most int64   `json:"most_blocks"`
	P50  float64 `json:"p50_ms"`
	P99  float64 `json:"p99_ms"`
}

// Steps are the numbers of samples that name an earlier block than a response that had been received before they were sent.
type Steps struct {
	Connection int `json:"one_connection"` // on the same connection
	All        int `json:"all"`            // on any connection
}

// Announced says how long the state of announced blocks could not be read.
type Announced struct {
	Offered bool    `json:"offered"` // the endpoint announces blocks
	Blocks  int     `json:"blocks"`
	Late    int     `json:"late"` // blocks whose state the first read did not find
	P50     float64 `json:"p50_ms"`
	Most    float64 `json:"most_ms"`
}

// Latency is the time from the scheduled start of a read to its response. Failed reads do not count. On fresh connections, it
// includes the time to connect.
type Latency struct {
	P50      float64 `json:"p50"`
	P99      float64 `json:"p99"`
	FreshP50 float64 `json:"fresh_p50"`
	FreshP99 float64 `json:"fresh_p99"`
}

// A point is a sample that can name a block, or that failed.
type point struct {
	at     time.Duration // since the start
	behind int64         // blocks; -1 if the sample names no block
	failed bool
}

// report computes the results of a run that began at a time.
func (r *run) report(began time.Time) *Report {
	rep := &Report{
		Chain: r.chain, Began: began.UTC().Truncate(time.Second), Seconds: math.Round(time.Since(began).Seconds()), Rate: r.Rate, Newest: r.named.newest(),
	}
	for _, e := range r.endpoints {
		rep.Endpoints = append(rep.Endpoints, e.result(began))
	}
	return rep
}

// result computes the results of the endpoint.
func (e *endpoint) result(began time.Time) Result {
	slices.SortFunc(e.samples, func(a, b sample) int { return a.sent.Compare(b.sent) })
	r := Result{
		Name: e.name, API: string(e.api), Samples: len(e.samples), Problems: problems(e.samples), Latency: latency(e.samples),
		StepsBackward: Steps{stepsBackward(e.samples, true), stepsBackward(e.samples, false)},
		Announced:     e.announced.result(), Pinned: e.pinned.complete(),
	}
	if e.run.against != nil && e.run.against.api == e.api {
		c := e.trusted.complete()
		r.Against = &c
	}
	for _, p := range r.Problems {
		r.Failures += p.Samples
	}
	r.FailureShare = share(r.Failures, r.Samples)
	var ages []time.Duration
	for _, s := range e.samples {
		p := point{at: s.sent.Sub(began), behind: -1, failed: s.problem != ""}
		switch {
		case s.height > 0:
			blocks, age := e.run.named.behind(s.height, s.sent)
			p.behind, ages = blocks, append(ages, age)
		case !p.failed && !s.names:
			continue
		case !p.failed:
			r.Silent++
		}
		r.points = append(r.points, p)
	}
	r.Named, r.Behind = len(ages), behind(r.points, ages)
	return r
}

// problems counts the failures of each kind.
func problems(samples []sample) []Count {
	counts, list := map[string]int{}, []Count{}
	for _, s := range samples {
		if s.problem != "" {
			counts[s.problem]++
		}
	}
	for problem, n := range counts {
		list = append(list, Count{problem, n})
	}
	slices.SortFunc(list, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Samples, a.Samples), cmp.Compare(a.Problem, b.Problem))
	})
	return list
}

func latency(samples []sample) Latency {
	var kept, fresh []time.Duration
	for _, s := range samples {
		switch {
		case s.problem != "":
		case s.fresh:
			fresh = append(fresh, s.latency)
		default:
			kept = append(kept, s.latency)
		}
	}
	return Latency{percentile(kept, 50), percentile(kept, 99), percentile(fresh, 50), percentile(fresh, 99)}
}

// complete returns the comparison with a list of differences that is not nil.
func (c Comparison) complete() Comparison {
	c.Differences = append([]Difference{}, c.Differences...)
	return c
}

// behind returns the distribution of the points that name a block. ages are the times for which they were behind.
func behind(points []point, ages []time.Duration) (b Behind) {
	b.At0 = shareWhere(points, func(blocks int64) bool { return blocks == 0 })
	b.At1 = shareWhere(points, func(blocks int64) bool { return blocks == 1 })
	b.At2 = shareWhere(points, func(blocks int64) bool { return blocks == 2 })
	b.More = shareWhere(points, func(blocks int64) bool { return blocks > 2 })
	for _, p := range points {
		b.Most = max(b.Most, p.behind)
	}
	b.P50, b.P99 = percentile(ages, 50), percentile(ages, 99)
	return b
}

// shareWhere returns the share of the points that name a block for which ok is true.
func shareWhere(points []point, ok func(blocks int64) bool) float64 {
	n, all := 0, 0
	for _, p := range points {
		if p.behind >= 0 {
			all++
			if ok(p.behind) {
				n++
			}
		}
	}
	return share(n, all)
}

// stepsBackward counts the samples that name an earlier block than one whose response had been received before they were sent.
// Samples are in the order in which they were sent.
func stepsBackward(samples []sample, sameConnection bool) (steps int) {
	received := slices.Clone(samples)
	slices.SortFunc(received, func(a, b sample) int { return a.done.Compare(b.done) })
	newest := map[int]int64{} // by connection
	for _, s := range samples {
		for len(received) > 0 && !received[0].done.After(s.sent) {
			of := received[0].lane(sameConnection)
			newest[of] = max(newest[of], received[0].height)
			received = received[1:]
		}
		if s.height > 0 && s.height < newest[s.lane(sameConnection)] && !(sameConnection && s.fresh) {
			steps++
		}
	}
	return steps
}

// lane returns the connection of a sample, or 0 for all connections.
func (s sample) lane(ofConnection bool) int {
	if ofConnection {
		return s.connection
	}
	return 0
}

func (a announcements) result() Announced {
	r := Announced{Offered: a.offered, Blocks: len(a.delays), P50: percentile(a.delays, 50), Most: percentile(a.delays, 100)}
	for _, delay := range a.delays {
		if delay > 0 {
			r.Late++
		}
	}
	return r
}

func share(n, of int) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}

// percentile returns a percentile in milliseconds, or 0 for no values.
func percentile(values []time.Duration, p int) float64 {
	if len(values) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(values))
	i := (len(sorted)*p+99)/100 - 1
	return math.Round(float64(sorted[i].Microseconds())/100) / 10
}
