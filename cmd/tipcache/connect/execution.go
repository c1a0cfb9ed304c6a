package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/collections/evm"
	"github.com/tipcache/tipcache/upstream/heights/comet"
)

// findExecution asks an execution client for its chain and its head, and whether
// there is a contract at each of the addresses.
func findExecution(ctx context.Context, cfg config.Config, client string) (found string, err error) {
	network := cfg.IndexOptions().Network
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	pool, err := evm.NewPool(evm.Options{
		Endpoints: []string{client}, ChainID: network.ChainID, Timeout: timeout, Observe: func(string) { cancel() }, // it is asked once
	})
	if err != nil {
		return "", err
	}
	defer pool.Close()
	var calls []evm.Call
	for _, contract := range []fmt.Stringer{network.Registry, network.Licensing, network.Disputes} {
		calls = append(calls, evm.Call{Method: "eth_getCode", Params: []any{contract.String(), "latest"}})
	}
	err = pool.Try(ctx, func(e *evm.Session) error {
		head, answers, err := e.AtHead(ctx, 0, calls...)
		if err != nil {
			return err
		}
		found = fmt.Sprintf("chain %d, block %d, all contracts", network.ChainID, head)
		var missing []string
		for i, a := range answers {
			if code, err := a.Text(); err != nil {
				return err
			} else if len(code) <= len("0x") {
				missing = append(missing, fmt.Sprint(calls[i].Params[0]))
			}
		}
		if len(missing) > 0 {
			return fmt.Errorf("chain %d has no contract at %s", network.ChainID, strings.Join(missing, ", "))
		}
		return nil
	})
	if errors.Is(err, context.Canceled) {
		err = cmp.Or(pool.Trouble(0), err)
	}
	return found, err
}

// findComet asks a CometBFT for its chain and its newest block.
func findComet(ctx context.Context, address string) (string, error) {
	base, err := url.Parse(strings.TrimSuffix(address, "/"))
	if err != nil {
		return "", errors.New("not a URL") // err repeats it
	}
	client := comet.New(base, timeout, 0)
	defer client.CloseIdle()
	result, err := client.Call(ctx, "status", []any{}, maxAnswer)
	if err != nil {
		return "", err
	}
	said := gjson.GetManyBytes(result, "node_info.network", "sync_info.latest_block_height", "node_info.other.tx_index")
	if said[1].String() == "" {
		return "", errors.New("its status names no block: it is no CometBFT")
	}
	text := fmt.Sprintf("chain %s, block %s", said[0], said[1])
	if index := said[2].String(); index != "" {
		text += ", transaction index " + index
	}
	return upstream.NewRedactor(base).Replace(text), nil
}
