package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy/rpc"
	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/node"
)

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

// findComet queries CometBFT for its chain and its newest block.
func findComet(ctx context.Context, cfg config.Config, e node.Endpoint, expected *chain) (string, error) {
	s, methods, err := node.CheckComet(ctx, e)
	if err = cmp.Or(err, expected.check(s.ChainID)); err != nil {
		return "", err
	}
	text := fmt.Sprintf("chain %s, block %d", s.ChainID, s.Height)
	if s.TxIndex != "" {
		text += ", transaction index " + s.TxIndex
	}
	if s.NoEvents != nil {
		text += ", subscriptions refused: " + s.NoEvents.Error()
	}
	unserved := slices.DeleteFunc(methods, func(name string) bool {
		return rpc.HasMethod(name, cfg.RPC.Methods) || strings.HasPrefix(name, "unsafe_") || strings.HasPrefix(name, "dial_")
	})
	if cfg.RPC.Listen != "" && len(unserved) > 0 {
		text += ", methods to add to rpc.methods if they only read: " + strings.Join(unserved, ", ")
	}
	return text, nil
}
