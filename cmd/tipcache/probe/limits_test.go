package probe_test

import (
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/tipcache/tipcache/cmd/tipcache/probe"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestLimits(t *testing.T) {
	failing := false
	down := &fakeNode{before: func(w http.ResponseWriter, r *http.Request) bool {
		fail := failing && newest() > 1010
		if fail {
			w.WriteHeader(http.StatusBadGateway)
		}
		return fail
	}}
	n := network{first: &fakeNode{}, second: &fakeNode{lag: withLag(2)}, third: &fakeNode{hides: true}}
	report := n.mustProbe(t, probe.Options{Endpoints: []string{"good=" + first, "late=" + second, "silent=" + third}})
	only := func(name string) *probe.Report {
		for _, e := range report.Endpoints {
			if e.Name == name {
				return &probe.Report{Endpoints: []probe.Result{e}}
			}
		}
		t.Fatalf("no endpoint %s", name)
		return nil
	}
	failing = true
	unreliable := network{first: down}.mustProbe(t, probe.Options{Endpoints: []string{"down=" + first}})
	short := n.mustProbe(t, probe.Options{Endpoints: []string{"short=" + first}, For: 10 * time.Second})
	lateOnceIn := func(reads int64) *probe.Report {
		var n atomic.Int64
		late := &fakeNode{lag: func(*http.Request) int64 {
			if n.Add(1)%reads == 0 {
				return 2
			}
			return 0
		}}
		return network{first: late}.mustProbe(t, probe.Options{Endpoints: []string{"rarely=" + first}})
	}
	tests := []struct {
		name   string
		report *probe.Report
		limits probe.Limits
		want   string // part of the error; "" for none
		few    bool
	}{
		{"no limits", report, probe.Limits{MaxBehind: -1, MaxFailures: -1}, "", false},
		{"no limits in a short run", short, probe.Limits{MaxBehind: -1, MaxFailures: -1}, "", false},
		{"current", only("good"), probe.Limits{MaxBehind: 0, MaxFailures: 0}, "", false},
		{"late within the limit", only("late"), probe.Limits{MaxBehind: 2, MaxFailures: 0}, "", false},
		{"late", only("late"), probe.Limits{MaxBehind: 1, MaxFailures: -1}, "late was more than 1 blocks behind", false},
		{"late in 2 % of the samples", lateOnceIn(50), probe.Limits{MaxBehind: 1, MaxFailures: -1}, "rarely was more than 1 blocks behind", false},
		{"late in less than 1 % of the samples", lateOnceIn(200), probe.Limits{MaxBehind: 1, MaxFailures: -1}, "", false},
		{"failures", unreliable, probe.Limits{MaxBehind: -1, MaxFailures: 0.5}, "down failed", false},
		{"failures within the limit", unreliable, probe.Limits{MaxBehind: -1, MaxFailures: 0.9}, "", false},
		{"few samples", short, probe.Limits{MaxBehind: 5, MaxFailures: -1}, "short has", true},
		{"few blocks", only("silent"), probe.Limits{MaxBehind: 5, MaxFailures: -1}, "silent names the block of 0", true},
		{"an exceeded limit and few blocks", report, probe.Limits{MaxBehind: 1, MaxFailures: -1}, "late was more", false},
	}
	for _, tt := range tests {
		err := tt.report.Check(tt.limits)
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: error = %v, want none", tt.name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || errors.Is(err, probe.ErrFewSamples) != tt.few {
			t.Errorf("%s: error = %v, want %q in it; few samples %t", tt.name, err, tt.want, tt.few)
		}
	}
}

func TestOneFailureOfManyExceedsLimitOfZero(t *testing.T) {
	var reads atomic.Int64
	failsOnce := &fakeNode{before: func(w http.ResponseWriter, _ *http.Request) bool {
		fails := reads.Add(1) == 1000
		if fails {
			w.WriteHeader(http.StatusBadGateway)
		}
		return fails
	}}
	report := network{first: failsOnce}.mustProbe(t, probe.Options{Endpoints: []string{"once=" + first}, Rate: 20, For: 25 * time.Minute})
	err := report.Check(probe.Limits{MaxBehind: -1, MaxFailures: 0})
	expect.Contains(t, fmt.Sprint(err), "once failed 0.003", "error")
}

func TestTableShowsNoControlCharactersOfServers(t *testing.T) {
	differs := probe.Comparison{Compared: 1, Differences: []probe.Difference{{Path: "/pool", Height: 1, Field: "pool.\x1b[2J", Got: "\"\u009b1m\"", Want: "missing"}}}
	r := &probe.Report{Chain: "chain\x1b]0;title\a", Endpoints: []probe.Result{{Name: "node", Pinned: differs}}}
	table := write(t, func(w io.Writer) error { return r.WriteTable(w, false) })
	if strings.ContainsAny(table, "\x1b\a\u009b") {
		t.Errorf("table = %q, want no control characters", table)
	}
	expect.Contains(t, table, "/pool at block 1: pool.\ufffd[2J is", "table")
}

func TestPictureIsSmallWellFormedXML(t *testing.T) {
	n := network{first: &fakeNode{}, second: &fakeNode{lag: withLag(9)}, third: &fakeNode{hides: true}}
	o := probe.Options{Endpoints: []string{"a<b>&=" + first, second, third}}
	for period, label := range map[time.Duration]string{time.Millisecond: "0 s", 500 * time.Millisecond: "1 s", time.Minute: "60 s", time.Hour: "3600 s"} {
		o.For = period
		checkPicture(t, write(t, n.mustProbe(t, o).WritePicture), period, label)
	}
}

// checkPicture checks the picture of a run, which has a label for its end.
func checkPicture(t *testing.T, picture string, period time.Duration, label string) {
	t.Helper()
	if len(picture) > 40_000 {
		t.Errorf("size of the picture = %d bytes, want at most 40 kB", len(picture))
	}
	texts, paths := map[string]bool{}, 0
	for d := xml.NewDecoder(strings.NewReader(picture)); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		expect.NoError(t, err)
		switch token := token.(type) {
		case xml.CharData:
			texts[string(token)] = true
		case xml.StartElement:
			if token.Name.Local == "path" {
				paths++
			}
		}
	}
	wants := []string{"a<b>&", "127.0.0.1:2", "names no block", label}
	if period >= time.Minute {
		wants = append(wants, "100 % at the newest block", "5+")
	}
	for _, want := range wants {
		if !texts[want] {
			t.Errorf("texts of the picture = %v, want %q", texts, want)
		}
	}
	if paths < 3 {
		t.Errorf("paths = %d, want a line for each endpoint", paths)
	}
}
