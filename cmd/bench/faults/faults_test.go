package faults

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestRequestsAreLostWithTheirReplicaAndBehindALink(t *testing.T) {
	killed := time.Unix(100, 0)
	b := &bed{replicas: []*replica{
		{Replica: &rig.Replica{}, addrs: []string{"a", "link"}, downs: []span{{from: killed}}},
		{Replica: &rig.Replica{}, addrs: []string{"b"}},
		{Replica: &rig.Replica{}, addrs: []string{"c"}, downs: []span{{from: killed, to: killed.Add(time.Minute)}}},
		{Replica: &rig.Replica{}, addrs: []string{"d"}, downs: []span{{from: killed, to: killed.Add(time.Minute), stopped: true}}},
	}}
	got := map[string]bool{}
	through := &bed{replicas: b.replicas[2:3], ingress: "nginx"}
	for name, a := range map[string]clients.Answer{
		"no replica":             {Status: 502, Sent: killed.Add(50 * time.Second)},
		"no replica, all there":  {Status: 502, Sent: killed.Add(61 * time.Second)},
		"a replica's own 502":    {Status: 502, Cache: "fwd=miss", Sent: killed.Add(50 * time.Second)},
		"another failure":        {Status: 503, Sent: killed.Add(50 * time.Second)},
		"a wait without a fault": {Status: 504, Least: 100, Sent: killed.Add(50 * time.Second)},
	} {
		a.Server = through.ingress
		got[name] = through.lost(&a)
	}
	for name, a := range map[string]clients.Answer{
		"under way when it was killed": {Server: "a", Sent: killed.Add(-time.Second), Took: 2 * time.Second},
		"sent just after":              {Server: "a", Sent: killed.Add(time.Millisecond)},
		"answered before":              {Server: "a", Sent: killed.Add(-2 * time.Second), Took: time.Second},
		"sent long after":              {Server: "a", Sent: killed.Add(5 * time.Second)},
		"to another":                   {Server: "b", Sent: killed},
		"behind a link":                {Server: "link", Sent: killed.Add(time.Hour)},
		"before it was back":           {Server: "c", Sent: killed.Add(50 * time.Second)},
		"after it was back":            {Server: "c", Sent: killed.Add(61 * time.Second)},
		"refused as it was killed":     {Server: "a", Status: 503, Sent: killed.Add(-time.Second), Took: 2 * time.Second},
		"failed once it went on":       {Server: "d", Status: 504, Sent: killed.Add(time.Second), Took: time.Minute},
		"failed after it went on":      {Server: "d", Status: 504, Sent: killed.Add(61 * time.Second)},
	} {
		got[name] = b.lost(&a)
	}
	want := map[string]bool{
		"no replica": true, "no replica, all there": false, "a replica's own 502": false, "another failure": false, "a wait without a fault": false,
		"under way when it was killed": true, "sent just after": true, "answered before": false, "sent long after": false,
		"refused as it was killed": false, "failed once it went on": true, "failed after it went on": false,
		"to another": false, "behind a link": true, "before it was back": true, "after it was back": false,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestClientsAreSpreadOverReplicasAndLinks(t *testing.T) {
	b := &bed{}
	for _, name := range []string{"a", "b"} {
		r := &replica{Replica: &rig.Replica{}, addrs: []string{name, name + " behind a link"}}
		r.ready.Store(true)
		b.replicas = append(b.replicas, r)
	}
	spread := func() []string {
		return []string{b.balance(0), b.balance(1), b.balance(2), b.balance(3)}
	}
	if diff := cmp.Diff([]string{"a", "b", "a behind a link", "b behind a link"}, spread()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	b.replicas[0].ready.Store(false)
	expect.NoDiff(t, spread(), []string{"b", "b", "b behind a link", "b behind a link"}, "order while one replica is not ready")
}

func TestAnswersThatAreOfNoBlockOfTheirOwnCannotBeBehind(t *testing.T) {
	const key, block100 = "/cosmos/staking/v1beta1/pool", "/cosmos/base/tendermint/v1beta1/blocks/100"
	b := &bed{unpinned: []string{block100}}
	for name, tt := range map[string]struct {
		answer clients.Answer
		want   bool
	}{
		"the newest block's":           {clients.Answer{Key: key, Status: 200, Tip: 1000, Height: 1000}, true},
		"behind":                       {clients.Answer{Key: key, Status: 200, Tip: 1000, Height: 990}, false},
		"a block long ago":             {clients.Answer{Key: block100, Status: 200, Tip: 1000, Height: 100}, true},
		"a block long ago that failed": {clients.Answer{Key: block100, Status: 502, Tip: 1000}, false},
	} {
		expect.Equal(t, b.atTip(&tt.answer), tt.want, "%s", name)
	}
}

func TestScenariosAreNamedOnce(t *testing.T) {
	seen := map[string]bool{}
	c := &campaign{short: true}
	for _, s := range append(c.scenarios(usual), c.attacks(usual)...) {
		if seen[s.name] || len(s.faults) == 0 {
			t.Errorf("%s: twice, or without a fault", s.name)
		}
		seen[s.name] = true
	}
}
