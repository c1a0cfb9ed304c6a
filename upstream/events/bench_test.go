package events_test

import (
	"fmt"
	"testing"

	"github.com/tipcache/tipcache/upstream/events"
)

// BenchmarkPublish publishes a transaction to 10,000 clients with two queries each. One query matches.
func BenchmarkPublish(b *testing.B) {
	for name, queries := range map[string][2]string{
		"texts":   {"tm.event='Tx' AND message.sender='a%d'", "tm.event='Tx' AND transfer.recipient='a%d'"},
		"numbers": {"tm.event='Tx' AND transfer.amount>%d", "tm.event='Tx' AND transfer.amount>9%d"},
	} {
		b.Run(name, func(b *testing.B) {
			feed := events.New(events.Options{Heights: newChain(0), Queue: 1 << 30})
			for i := range 10_000 {
				s := feed.Subscriber(2, func() {})
				for _, q := range queries {
					if err := s.Subscribe(fmt.Sprintf(q, 100_000+i), nil); err != nil {
						b.Fatal(err)
					}
				}
			}
			e := &events.Event{Kind: events.Tx, Tags: map[string][]string{
				"tm.event": {"Tx"}, "message.sender": {"a100007", "a100007"}, "message.action": {"send"},
				"transfer.amount": {"100000stake", "5stake"}, "transfer.recipient": {"a5", "a6"}, "tx.height": {"7"},
			}}
			for b.Loop() {
				feed.Publish(e)
			}
		})
	}
}
