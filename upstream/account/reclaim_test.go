package account_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/expect"
)

func TestClientWithTheMostLosesItsConnectionsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := account.New(1000, nil)
		now := time.Now()
		var closed []string
		holder := func(name, client string, n int64, ago time.Duration) account.Holder {
			h := account.Holder{Client: client, Bytes: n, Since: now.Add(-ago), Close: func() {
				closed = append(closed, name)
				a.Release(account.Streams, n)
			}}
			return h
		}
		remove := a.AddHolders(account.Streams, func() []account.Holder {
			return []account.Holder{
				holder("one's first", "10.0.0.1", 100, time.Second),
				holder("proxy's first", "", 150, time.Hour),
				holder("proxy's second", "", 150, time.Minute),
			}
		})
		defer a.AddHolders(account.Streams, func() []account.Holder {
			return []account.Holder{holder("one's second", "10.0.0.1", 100, time.Minute), holder("two's", "10.0.0.2", 120, 0)}
		})()
		if !a.Reserve(account.Streams, 875) {
			t.Fatal("Reserve = false, want true")
		}
		a.Reclaim(account.Streams, 0)
		want := []string{"one's second", "one's first"} // 200 bytes together, until 675 are in use
		expect.NoDiff(t, closed, want, "closed connections")
		if !a.Reserve(account.Streams, 200) {
			t.Fatal("Reserve = false, want true")
		}
		a.Reclaim(account.Streams, 0)
		if len(closed) != len(want) {
			t.Errorf("closed %q before the first could release their memory", closed[len(want):])
		}
		time.Sleep(time.Second)
		closed = nil
		a.Reclaim(account.Streams, 100)
		expect.NoDiff(t, closed, []string{"one's second", "one's first", "proxy's first"}, "closed connections")
		remove()
		time.Sleep(time.Second)
		closed = nil
		a.Reclaim(account.Streams, 1000)
		expect.NoDiff(t, closed, []string{"two's", "one's second"}, "closed connections")
	})
}

func TestConnectionsStayOpenWhileOthersUseTheMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := account.New(1000, nil)
		closed := 0
		defer a.AddHolders(account.Streams, func() (all []account.Holder) {
			for range 7 {
				all = append(all, account.Holder{Bytes: 50, Close: func() { closed++ }})
			}
			return all
		})()
		a.Reserve(account.Lane, 400)
		a.Reserve(account.Upstream, 375)
		a.Reserve(account.Streams, 100)
		a.Reclaim(account.Streams, 50)
		expect.Equal(t, closed, 0, "closed connections while they use 100 bytes of 1000")
		time.Sleep(time.Second)
		a.Release(account.Upstream, 250)
		a.Reserve(account.Unread, 250)
		a.Reclaim(account.Streams, 50)
		expect.Equal(t, closed, 3, "closed connections while they use 350 bytes of 1000")
	})
}

func TestRefusedStreamCallsForMemory(t *testing.T) {
	a := account.New(1000, nil)
	a.Reserve(account.Requests, 875)
	select {
	case <-a.Short(account.Streams):
		t.Error("Short has a value before anything was refused")
	default:
	}
	for range 2 {
		a.Reserve(account.Streams, 1)
	}
	select {
	case <-a.Short(account.Streams):
	default:
		t.Error("Short has no value after a stream was refused")
	}
}

func TestRefusedEventsEndTheLargestHolders(t *testing.T) {
	a := account.New(4000, nil)
	p := a.Events() // 1000
	var ended []string
	holder := func(client string, hold *account.Hold) account.Holder {
		return account.Holder{Client: client, Bytes: hold.Bytes(), Close: func() { ended = append(ended, client); hold.Close() }}
	}
	one, two, other := p.Open("one", false), p.Open("one", false), p.Open("other", false)
	expect.NoError(t, one.Take(130))
	expect.NoError(t, two.Take(120))
	expect.NoError(t, other.Take(200))
	expect.NoError(t, p.Open("", true).Take(300))
	defer a.AddHolders(account.Events, func() []account.Holder {
		return []account.Holder{holder("one", one), holder("one", two), holder("other", other)}
	})()
	defer a.AddHolders(account.Streams, func() []account.Holder {
		return []account.Holder{{Bytes: 1000, Close: func() { t.Error("a connection was closed, want an event stream") }}}
	})()
	expect.ErrorIs(t, p.Open("new", false).Start(100), account.ErrFull, "reservation")
	a.Reclaim(account.Events, <-a.Short(account.Events))
	expect.NoDiff(t, ended, []string{"one", "one"}, "clients of the ended streams")
	expect.NoError(t, p.Open("new", false).Start(100))
}

func TestRefusedShareEndsNothing(t *testing.T) {
	a := account.New(4000, nil)
	p := a.Events()
	expect.NoError(t, p.Open("", true).Take(700))
	expect.ErrorIs(t, p.Open("one", false).Take(251), account.ErrShare, "reservation")
	expect.ErrorIs(t, p.Open("", true).Take(301), account.ErrFull, "reservation") // more than a share
	select {
	case <-a.Short(account.Events):
		t.Error("Short has a value, want none")
	default:
	}
}
