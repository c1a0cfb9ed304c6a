package faults

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
)

// auditAll has the replicas read again all that they take.
const auditAll = "TIPCACHE_AUDIT_SHARE=1"

// nodesHonest lasts until the auditors have read so many answers again as the plan says,
// and found them the same.
var nodesHonest = fault{name: "the nodes are honest", withstood: true, do: func(ctx context.Context, b *bed, _ func()) error {
	for rig.Pause(ctx, time.Second) {
		same, other, err := b.audited(ctx)
		if err != nil || other > 0 {
			return fmt.Errorf("%.0f of %.0f answers are not what they were: %w", other, same, err)
		}
		if same >= float64(b.plan.audited) {
			b.note("%.0f answers were read again and are the same", same)
			break
		}
	}
	return nil
}}

// audited counts what the auditors have found the same, and what not.
func (b *bed) audited(ctx context.Context) (same, other float64, err error) {
	for _, r := range b.replicas {
		m, err := r.Metrics(ctx)
		if err != nil {
			return 0, 0, err
		}
		const name = "tipcache_audit_entries_total"
		same += m.Sum(name, `result="same"`)
		other += m.Sum(name, `result="different"`) + m.Sum(name, `result="unsettled"`)
	}
	return same, other, nil
}

// nodeForges has a node give forged answers, of which the auditors find each that a client saw.
func nodeForges(node int, hold time.Duration) fault {
	return fault{name: "a node forges its answers", hold: hold, forges: true, do: func(ctx context.Context, b *bed, last func()) error {
		began := time.Now()
		if err := b.nodes[node].SetFaults(devnet.Fault{Latency: b.plan.nodeLatency, Forged: true}, devnet.Fault{}); err != nil {
			return err
		}
		last()
		if err := b.nodes[node].SetFaults(devnet.Fault{Latency: b.plan.nodeLatency}, devnet.Fault{}); err != nil {
			return err
		}
		rig.Pause(ctx, 2*blockTime) // for what is still to be read again
		return b.forgedFound(ctx, began)
	}}
}

// forgedFound is an error unless each forged answer that a client saw since a moment was found.
func (b *bed) forgedFound(ctx context.Context, since time.Time) error {
	m, err := b.model(ctx)
	if err != nil {
		return err
	}
	found, err := b.differences()
	if err != nil {
		return err
	}
	var forged []string
	for key, heights := range b.history.Forged(m, since) {
		for height := range heights {
			forged = append(forged, nameOf(key, height))
		}
	}
	missed := slices.DeleteFunc(slices.Clone(forged), func(key string) bool { return found[key] })
	if len(missed) > 0 {
		return fmt.Errorf("%d forged answers were seen, the auditors have found %d, but not %d of them: %q", len(forged), len(found), len(missed), missed[:min(5, len(missed))])
	}
	if len(forged) == 0 {
		return fmt.Errorf("no client saw a forged answer")
	}
	b.note("clients saw %d forged answers, and the auditors found these and %d more", len(forged), len(found)-len(forged))
	return nil
}

// differences are the keys, with their heights, of which the replicas' logs say that answers differ.
func (b *bed) differences() (map[string]bool, error) {
	found := map[string]bool{}
	for _, r := range b.replicas {
		log, err := os.Open(r.Log)
		if err != nil {
			return nil, err
		}
		defer log.Close()
		lines := bufio.NewScanner(log)
		for lines.Scan() {
			var line struct {
				Key    string
				Height int64
			}
			if strings.Contains(lines.Text(), "answers differ") && json.Unmarshal(lines.Bytes(), &line) == nil {
				found[nameOf(line.Key, line.Height)] = true
			}
		}
	}
	return found, nil
}

// nameOf names an answer by its key, as it was asked or as a replica has it: that begins with
// the shape, and has the parameters in an order of its own.
func nameOf(key string, height int64) string {
	path, query, _ := strings.Cut(key[strings.IndexByte(key, '/'):], "?")
	parameters := strings.Split(query, "&")
	slices.Sort(parameters)
	return fmt.Sprintf("%s?%s at %d", path, strings.Join(parameters, "&"), height)
}
