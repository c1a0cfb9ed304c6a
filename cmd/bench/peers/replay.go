package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cmd/bench/clients"
	"github.com/tipcache/tipcache/cmd/bench/rig"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

const (
	visitors     = 200 // half of them wallets with an owner each, half explorers
	visitEvery   = 6 * time.Second
	replayRounds = 4                    // visits of each that are measured, after one that is not
	replayNode   = 2 * time.Millisecond // for an answer, as a real node takes for most
	noProxy      = "no proxy"
)

// Replay measures whole applications before a chain of the Cosmos SDK.
func Replay(ctx context.Context, r *rig.Rig) error {
	spoken := r.Dialect
	r.Dialect = devnet.Cosmos
	defer func() { r.Dialect = spoken }()
	rounds := replayRounds
	if r.Short {
		rounds = 1
	}
	var rows [][]string
	for _, name := range []string{noProxy, nginxName, tipcacheName} {
		row, err := replayBefore(ctx, r, name, rounds)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		rows = append(rows, row)
		r.Stop()
		r.Progress("replay: %s", name)
	}
	r.Table(fmt.Sprintf("replay: %d visitors, a visit every %v, %d of each; blocks of %v, node latency %v", visitors, visitEvery, rounds, blockTime, replayNode),
		[]string{"server", "requests", "failed", "node requests", "for common keys", "node CPU s", "server CPU s", "p50 ms", "p99 ms", "visit p99 ms"}, rows)
	r.Note("Half of the visitors are wallets, each with an owner of its own (%d requests a visit), half are explorers (%d), one request after another. The node is a simulated one in a process of its own, whose CPU is told: a real node's queries cost more. nginx keeps answers for %v. What an owner alone asks is new to any cache: common keys are the rest, but for node_info, which tipcache passes on.",
		len(walletVisit("")), len(explorerVisit()), peersFresh)
	return nil
}

// replayBefore measures one server before a node of its own.
func replayBefore(ctx context.Context, r *rig.Rig, name string, rounds int) ([]string, error) {
	node, err := startNode(ctx, r)
	if err != nil {
		return nil, err
	}
	url, processes := node.node, []*rig.Process{node.Process}
	if name != noProxy {
		p, err := before(ctx, r, name, origin{node: node.node, comet: node.comet, fresh: peersFresh})
		if err != nil {
			return nil, err
		}
		url, processes = p.url, append(processes, p.Process)
	}
	owners, err := node.owners(ctx)
	if err != nil {
		return nil, err
	}
	all := visits{clients: clients.NewCrowd(rig.Host(url), visitors), owners: owners}
	defer all.clients.Close()
	all.round(ctx, 1)
	first, err := node.asked(ctx, owners)
	if err != nil {
		return nil, err
	}
	all.took, all.visits, all.failed = nil, nil, 0
	spent, err := rig.Spent(func() error { all.round(ctx, rounds); return nil }, processes...)
	if err != nil {
		return nil, err
	}
	last, err := node.asked(ctx, owners)
	return all.row(name, last[0]-first[0], last[1]-first[1], spent), err
}

// A replayed is a simulated node in a process of its own.
type replayed struct {
	*rig.Process
	node, comet, control string
}

func startNode(ctx context.Context, r *rig.Rig) (n *replayed, err error) {
	n = &replayed{}
	rest, comet, control := rig.FreeAddr(), rig.FreeAddr(), rig.FreeAddr()
	n.node, n.comet, n.control = "http://"+rest, "http://"+comet, "http://"+control
	n.Process, err = r.Start(ctx, "node-"+rig.Port(rest), nil, r.Bin, "devnet", "--dialect", string(devnet.Cosmos), "--block-time", blockTime.String(),
		"--node-latency", replayNode.String(), "--node-listen", rest, "--comet-listen", comet, "--control-listen", control,
		"--metadata-listen", rig.FreeAddr(), "--evm-listen", rig.FreeAddr())
	if err != nil {
		return nil, err
	}
	return n, n.Ready(ctx, rig.Answers(n.node+r.Path(smallPath)))
}

// owners are accounts of the chain, one for each visitor.
func (n *replayed) owners(ctx context.Context) (all []string, err error) {
	text, err := rig.Get(ctx, fmt.Sprintf("%s%s/validators/%s/delegations?pagination.limit=%d", n.node, sdkStaking, cosmos.PopularValidator, visitors))
	for _, owner := range gjson.Get(text, "delegation_responses.#.delegation.delegator_address").Array() {
		all = append(all, owner.String())
	}
	if err == nil && len(all) < visitors {
		err = fmt.Errorf("the chain has %d delegators only", len(all))
	}
	return all, err
}

// asked counts the requests that the REST server got, and of those what is neither an owner's
// own nor about the node itself: what several visitors ask for.
func (n *replayed) asked(ctx context.Context, owners []string) (counts [2]int64, err error) {
	text, err := rig.Get(ctx, n.control+"/devnet/stats?top=100000") // more than it tells apart
	if err != nil {
		return counts, err
	}
	var s devnet.Stats
	err = json.Unmarshal([]byte(text), &s)
	counts[0] = s.Node.Requests
	for _, a := range s.Node.Asked {
		own := slices.ContainsFunc(owners, func(owner string) bool { return strings.Contains(a.URI, "/"+owner) })
		if !own && !strings.HasSuffix(a.URI, aboutNode) {
			counts[1] += a.Count
		}
	}
	return counts, err
}
