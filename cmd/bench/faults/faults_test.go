package faults

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"syscall"
	"testing"
	"time"

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
		"no replica ready":   {Status: 502, Sent: killed.Add(50 * time.Second)},
		"all replicas ready": {Status: 502, Sent: killed.Add(61 * time.Second)},
		"502 of a replica":   {Status: 502, Cache: "fwd=miss", Sent: killed.Add(50 * time.Second)},
		"another status":     {Status: 503, Sent: killed.Add(50 * time.Second)},
		"timeout of a wait":  {Status: 504, Least: 100, Sent: killed.Add(50 * time.Second)},
	} {
		a.Server = through.ingress
		got[name] = through.lost(&a)
	}
	for name, a := range map[string]clients.Answer{
		"in flight at the kill":    {Server: "a", Sent: killed.Add(-time.Second), Took: 2 * time.Second},
		"sent just after":          {Server: "a", Sent: killed.Add(time.Millisecond)},
		"answered before":          {Server: "a", Sent: killed.Add(-2 * time.Second), Took: time.Second},
		"sent long after":          {Server: "a", Sent: killed.Add(5 * time.Second)},
		"to another replica":       {Server: "b", Sent: killed},
		"behind a link":            {Server: "link", Sent: killed.Add(time.Hour)},
		"before the restart":       {Server: "c", Sent: killed.Add(50 * time.Second)},
		"after the restart":        {Server: "c", Sent: killed.Add(61 * time.Second)},
		"refused at the kill":      {Server: "a", Status: 503, Sent: killed.Add(-time.Second), Took: 2 * time.Second},
		"failed at the resumption": {Server: "d", Status: 504, Sent: killed.Add(time.Second), Took: time.Minute},
		"failed after resumption":  {Server: "d", Status: 504, Sent: killed.Add(61 * time.Second)},
	} {
		got[name] = b.lost(&a)
	}
	want := map[string]bool{
		"no replica ready": true, "all replicas ready": false, "502 of a replica": false, "another status": false, "timeout of a wait": false,
		"in flight at the kill": true, "sent just after": true, "answered before": false, "sent long after": false,
		"refused at the kill": false, "failed at the resumption": true, "failed after resumption": false,
		"to another replica": false, "behind a link": true, "before the restart": true, "after the restart": false,
	}
	expect.NoDiff(t, got, want, "lost requests")
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
	expect.NoDiff(t, spread(), []string{"a", "b", "a behind a link", "b behind a link"}, "order")
	b.replicas[0].ready.Store(false)
	expect.NoDiff(t, spread(), []string{"b", "b", "b behind a link", "b behind a link"}, "order while one replica is not ready")
}

func TestUnpinnedAnswersCannotBeBehind(t *testing.T) {
	const key, block100 = "/cosmos/staking/v1beta1/pool", "/cosmos/base/tendermint/v1beta1/blocks/100"
	b := &bed{unpinned: []string{block100}}
	for name, tt := range map[string]struct {
		answer clients.Answer
		want   bool
	}{
		"newest block":               {clients.Answer{Key: key, Status: 200, Tip: 1000, Height: 1000}, true},
		"behind":                     {clients.Answer{Key: key, Status: 200, Tip: 1000, Height: 990}, false},
		"unpinned old block":         {clients.Answer{Key: block100, Status: 200, Tip: 1000, Height: 100}, true},
		"unpinned block that failed": {clients.Answer{Key: block100, Status: 502, Tip: 1000}, false},
	} {
		expect.Equal(t, b.atTip(&tt.answer), tt.want, "%s", name)
	}
}

func TestScenariosHaveUniqueNamesAndFaults(t *testing.T) {
	seen := map[string]bool{}
	c := &campaign{short: true}
	for _, s := range append(c.scenarios(), c.attacks()...) {
		if seen[s.name] || len(s.faults) == 0 {
			t.Errorf("scenario %s has the name of another (%t) or no fault: %v", s.name, seen[s.name], s.faults)
		}
		seen[s.name] = true
	}
}

func TestAttackThatCannotConnectFails(t *testing.T) {
	s := httptest.NewServer(http.NotFoundHandler())
	defer s.Close()
	addr := rig.Host(s.URL)
	attacks := []func(context.Context, *bed, int){unreadLists, subscriptions, requestAllCodings, flood{of: grpcAddr, path: path(supply)}.run}
	// attack lets one client attack until it has sent a request, but at most for the given time.
	attack := func(i int, most time.Duration) error {
		b := &bed{replicas: []*replica{{addrs: []string{addr}, rpc: addr, grpc: addr}}}
		ctx, cancel := context.WithTimeout(t.Context(), most)
		defer cancel()
		go func() {
			for b.sent.Load() == 0 && rig.Pause(ctx, time.Millisecond) {
			}
			cancel()
		}()
		attacks[i](ctx, b, 0)
		return b.isAttackedBy(1)
	}
	for i := range attacks {
		expect.NoError(t, attack(i, time.Minute))
	}
	s.Close()
	for i := range attacks {
		if err := attack(i, 50*time.Millisecond); err == nil {
			t.Errorf("attack %d on an address without a server: error = nil, want one", i)
		}
	}
}

func TestLinkFailsInEachWayAndRecovers(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "here") }))
	defer s.Close()
	r := expect.Value(rig.New(t.Context(), rig.Options{Bin: "unused"}))(t)
	defer r.Close()
	b := &bed{Rig: r, links: map[string]link{}}
	addr := b.through(nodeLink, rig.Host(s.URL))
	get := func(timeout time.Duration) error {
		conn, err := net.Dial("tcp", addr)
		expect.NoError(t, err)
		defer conn.Close()
		_ = conn.SetDeadline(time.Now().Add(timeout))
		_, _ = io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n")
		_, err = io.ReadAll(conn)
		return err
	}
	l := b.links[nodeLink]
	for weather, want := range map[string]error{
		"latency": os.ErrDeadlineExceeded, "resets": syscall.ECONNRESET, "half-open": os.ErrDeadlineExceeded, "slow close": os.ErrDeadlineExceeded,
	} {
		expect.NoError(t, l.fail(weathers[weather]...))
		timeout := 90 * time.Millisecond
		if weather == "resets" {
			timeout = 10 * time.Second
		}
		expect.ErrorIs(t, get(timeout), want, "request with %s", weather)
		l.mend()
		expect.NoError(t, get(10*time.Second))
	}
}
