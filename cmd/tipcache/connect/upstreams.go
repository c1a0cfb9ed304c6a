package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/tipcache/tipcache/cache/redis"
	"github.com/tipcache/tipcache/cmd/tipcache/service"
	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/node"
)

// remoteProbes check all parts on other machines. Nodes, provider and readiness come from one inspection of the service.
func remoteProbes(ctx context.Context, cfg config.Config) (probes []probe) {
	inspect := sync.OnceValues(func() (service.Inspection, error) { return service.Inspect(ctx, cfg) })
	inspected := func(part, setting, address string, headers http.Header, describe func(service.Inspection) (string, error)) {
		probes = append(probes, probe{part: part, address: hostOf(address), find: func(context.Context) (string, error) {
			s, err := inspect()
			if err != nil {
				return "", err
			}
			text, err := describe(s)
			return text, explain(ctx, err, setting, address, headers)
		}})
	}
	for i, e := range cfg.NodeOptions().Endpoints {
		inspected("node", "", e.REST, e.Headers, func(s service.Inspection) (string, error) { return describeNode(s, i, cfg) })
		if e.Comet != "" {
			inspected("comet", "chain.comet", e.Comet, e.Headers, func(s service.Inspection) (string, error) { return describeComet(s, i, cfg) })
		}
		if e.GRPC != "" {
			inspected("grpc", "chain.grpc", e.GRPC, e.Headers, func(s service.Inspection) (string, error) { return describeGRPC(s, i) })
		}
	}
	if len(cfg.Chain.Nodes) > 0 && !cfg.ReadsGRPC() && (cfg.RPC.Listen != "" || cfg.GRPC.Listen != "") {
		probes = append(probes, probe{part: "grpc", off: "chain.grpc is not set: state is read by abci_query, during which a node makes no blocks. gRPC methods that neither read state nor exist in the RPC are refused"})
	}
	if cfg.Redis.URL != "none" {
		probes = append(probes, probe{part: "redis", address: config.Host(cfg.Redis.URL), find: func(ctx context.Context) (string, error) { return findRedis(ctx, cfg) }})
	}
	if !strings.HasPrefix(cfg.Collections.Store, "sqlite:") && cfg.NeedsStore() {
		probes = append(probes, storeProbe(cfg))
	}
	if cfg.Metadata.Provider != "none" {
		inspected("provider", "", cfg.Metadata.Provider, nil, func(s service.Inspection) (string, error) { return "it answers", s.Provider })
	}
	if cfg.Index.Enabled {
		for _, client := range cfg.Index.EVM {
			probes = append(probes, probe{part: "execution", address: config.Host(client), find: func(ctx context.Context) (string, error) {
				text, err := findExecution(ctx, cfg, client)
				return text, explain(ctx, err, "index.evm", client, nil)
			}})
		}
	}
	inspected("serve", "", "", nil, describeReadiness)
	return probes
}

// hostOf returns the host of an address that may be HOST:PORT, as in chain.grpc, or empty.
func hostOf(address string) string {
	if address == "" {
		return ""
	}
	if target, err := node.ParseTarget(address); err == nil {
		return target.Host
	}
	return config.Host(address)
}

func describeNode(s service.Inspection, i int, cfg config.Config) (string, error) {
	h, server := s.Nodes[i], s.Servers[i]
	switch speaks := server.API.Dialect(); {
	case server.Mismatch(node.StoryREST, node.CosmosREST) != nil:
		return "", misplaced(server, "chain.nodes")
	case speaks != "" && string(speaks) != s.Dialect && cfg.Chain.Dialect != "":
		return "", fmt.Errorf("it speaks %s, and chain.dialect is %s: set chain.dialect to %s, or leave it empty", speaks, s.Dialect, speaks)
	case speaks != "" && string(speaks) != s.Dialect:
		return "", fmt.Errorf("it speaks %s, and the nodes before it %s: chain.nodes must be nodes of one chain", speaks, s.Dialect)
	case h.Unfit != "":
		return "", errors.New(h.Unfit)
	case speaks == "":
		return "", errors.New("it does not respond in a known dialect: chain.nodes needs " + places["chain.nodes"].needs)
	case h.Height == 0:
		return "", warning(fmt.Sprintf("speaks %s, but no block is known after %v: until one is, freshness is in seconds", s.Dialect, timeout))
	default:
		return fmt.Sprintf("chain %s, block %d, %s old, speaks %s", cmp.Or(h.ChainID, "unknown"), h.Height, h.BlockAge, s.Dialect), nil
	}
}

// places are the APIs that the settings with addresses of a chain's servers expect, and what the settings need.
var places = map[string]struct {
	apis  []node.API
	needs string
}{
	"chain.nodes": {[]node.API{node.StoryREST, node.CosmosREST}, "the REST API of a node, usually at port 1317"},
	"chain.comet": {[]node.API{node.CometRPC}, "the RPC of CometBFT, usually at port 26657"},
	"chain.grpc":  {[]node.API{node.NodeGRPC}, "the gRPC of a node, usually at port 9090"},
	"index.evm":   {[]node.API{node.ExecutionJSON}, "the JSON-RPC of an execution client, usually at port 8545"},
}

// explain returns why a server cannot be used at the address that a setting has, and err if that is not known. It leaves an error
// of no setting as it is.
func explain(ctx context.Context, err error, setting, address string, headers http.Header) error {
	if err == nil || setting == "" {
		return err
	}
	server, unreachable := node.Recognize(ctx, address, headers)
	if unreachable != nil {
		return err
	}
	return cmp.Or(misplaced(server, setting), err)
}

// misplaced returns why a server cannot be used for a setting and what to set, or nil.
func misplaced(s node.Server, setting string) error {
	err := s.Mismatch(places[setting].apis...)
	switch {
	case err == nil:
		return nil
	case s.Scheme != "":
		return fmt.Errorf("%w in %s", err, setting)
	}
	for belongs, place := range places {
		if slices.Contains(place.apis, s.API) {
			return fmt.Errorf("%w, which belongs in %s: %s needs %s", err, belongs, setting, places[setting].needs)
		}
	}
	return err
}

func describeComet(s service.Inspection, i int, cfg config.Config) (string, error) {
	h := s.Nodes[i]
	if h.RPC != "ok" {
		return "", cmp.Or(h.CometErr, errors.New(h.RPC))
	}
	text := fmt.Sprintf("chain %s, block %d", h.ChainID, h.Height)
	if h.Version != "" {
		text += ", CometBFT " + h.Version
	}
	if h.TxIndex != "" {
		text += ", transaction index " + h.TxIndex
	}
	if h.NoEvents != nil {
		text += ", subscriptions refused: " + h.NoEvents.Error()
	}
	unserved := slices.DeleteFunc(s.Methods[i], func(name string) bool {
		return rpc.HasMethod(name, cfg.RPC.Methods) || strings.HasPrefix(name, "unsafe_") || strings.HasPrefix(name, "dial_")
	})
	if cfg.RPC.Listen != "" && len(unserved) > 0 {
		text += ", methods to add to rpc.methods if they only read: " + strings.Join(unserved, ", ")
	}
	return text, nil
}

func describeGRPC(s service.Inspection, i int) (string, error) {
	if h := s.Nodes[i]; h.GRPC != "ok" {
		return "", errors.New(h.GRPC)
	}
	return "chain " + s.Nodes[i].ChainID, nil
}

// describeReadiness returns what /readyz would say.
func describeReadiness(s service.Inspection) (string, error) {
	problems, degraded := slices.Sorted(maps.Keys(s.Problems)), slices.Sorted(maps.Keys(s.Degraded))
	switch {
	case !s.Ready:
		return "", warning("it would not be ready because of: " + strings.Join(problems, ", "))
	case len(degraded) > 0:
		return "", warning("it would be ready, but degraded: " + strings.Join(degraded, ", "))
	default:
		return "it would be ready", nil
	}
}

// parseRedis does not connect.
func parseRedis(cfg config.Config) (string, error) {
	shared, err := redis.Open(redis.Options{Settings: cfg.Redis})
	if err != nil {
		return "", err
	}
	return "not checked without --connect", shared.Close()
}

func findRedis(ctx context.Context, cfg config.Config) (string, error) {
	shared, err := redis.Open(redis.Options{Settings: cfg.Redis})
	if err != nil {
		return "", err
	}
	defer shared.Close()
	return shared.Check(ctx)
}

// findExecution queries an execution client for its chain, its head and the code at each contract address.
func findExecution(ctx context.Context, cfg config.Config, client string) (found string, err error) {
	network := cfg.IndexOptions().Network
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pool, err := evm.NewPool(evm.Options{
		Endpoints: []string{client}, ChainID: network.ChainID, Timeout: timeout, Observe: func(string) { cancel() }, // one attempt
	})
	if err != nil {
		return "", err
	}
	defer pool.Close()
	err = pool.Try(ctx, func(e *evm.Session) error {
		head, codes, err := network.HaveCode(ctx, e, 0, "latest")
		if err != nil {
			return err
		}
		found = fmt.Sprintf("chain %d, block %d, all contracts", network.ChainID, head)
		var missing []string
		for i, contract := range []fmt.Stringer{network.Registry, network.Licensing, network.Disputes} {
			if !codes[i] {
				missing = append(missing, contract.String())
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("chain %d has no contract at %s", network.ChainID, strings.Join(missing, ", "))
		}
		return nil
	})
	if f, ok := errors.AsType[*evm.Failure](pool.Trouble(0)); ok && err != nil {
		if err = f; f.Reason == evm.OtherChain {
			err = fmt.Errorf("%w, and index.network is %s", f, strings.Join(cfg.Index.Network, ", "))
		}
	}
	return found, err
}
