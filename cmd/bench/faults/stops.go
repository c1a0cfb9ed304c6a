package faults

import (
	"context"
	"fmt"
	"net/http"
	"syscall"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// stops are SIGSTOP of everything, one after another.
func stops(hold time.Duration) []fault {
	return []fault{
		stopped("a node", hold, func(b *bed) []*rig.Process { return b.relays[:2] }), // the chain goes on
		stopped("CometBFT", hold, func(b *bed) []*rig.Process { return b.relays[1:2] }).isWithstood(),
		stopped("Redis", hold, func(b *bed) []*rig.Process { return []*rig.Process{b.redis.Process} }).isWithstood(),
		replicaStopped(hold),
	}
}

// replicaStopped stops the last replica, as replicaKilled kills it.
func replicaStopped(hold time.Duration) fault {
	f := stopped("a replica", hold, func(b *bed) []*rig.Process { return []*rig.Process{b.last().Process} })
	stop, resume := f.begin, f.end
	f.begin = func(ctx context.Context, b *bed) {
		b.last().down(true)
		stop(ctx, b)
	}
	f.end = func(ctx context.Context, b *bed) {
		resume(ctx, b)
		b.last().up()
	}
	return f
}

// stopped stops processes, and has them go on after a time.
func stopped(name string, hold time.Duration, of func(*bed) []*rig.Process) fault {
	signal := func(s syscall.Signal) step {
		return func(_ context.Context, b *bed) {
			for _, p := range of(b) {
				p.Signal(s)
			}
		}
	}
	return fault{name: fmt.Sprintf("%s stopped for %v", name, hold.Round(time.Second)), hold: hold, begin: signal(syscall.SIGSTOP), end: signal(syscall.SIGCONT)}
}

// clockJumps are jumps of the clock of one replica, forward and back, and of all clocks.
func clockJumps(by, hold time.Duration) []fault {
	return []fault{clockAt(by, hold, 1), clockAt(-by, hold, 1), clockAt(by, hold, 0, 1), clockAt(0, hold, 0, 1)}
}

// clockAt sets the wall clock of replicas off by some time, for good.
func clockAt(offset, hold time.Duration, replicas ...int) fault {
	name := fmt.Sprintf("clock of %d of the replicas off by %v", len(replicas), offset)
	return fault{name: name, hold: hold, withstood: true, begin: func(ctx context.Context, b *bed) {
		for _, i := range replicas {
			b.SetClock(clockOf(i), offset)
			rig.Check(rig.Eventually(ctx, b.replicas[i].isOff(offset)))
		}
	}}
}

// isOff tells by the Date of an answer whether a replica's clock is off by some time.
func (r *replica) isOff(want time.Duration) func(context.Context) error {
	return func(ctx context.Context) error {
		conn := clients.Conn{Addr: rig.Host(r.Admin)}
		defer conn.Close()
		response, err := conn.Get(ctx, "/healthz")
		if err != nil {
			return err
		}
		date, err := http.ParseTime(response.Header.Get("Date"))
		if off := time.Until(date); err == nil && (off-want).Abs() > 10*time.Second {
			err = fmt.Errorf("the clock is off by %v, not %v", off, want)
		}
		return err
	}
}

func clockOf(replica int) string { return fmt.Sprintf("replica-%d", replica) }
