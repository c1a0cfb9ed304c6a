package connect

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream"
)

// findExecution asks an execution client for its chain and its head, and whether
// there is a contract at each of the addresses.
func findExecution(ctx context.Context, cfg config.Config, client string) (string, error) {
	network := cfg.IndexOptions().Network
	chain, err := ethNumber(ctx, client, "eth_chainId")
	if err != nil {
		return "", err
	}
	head, err := ethNumber(ctx, client, "eth_blockNumber")
	if err == nil && chain != network.ChainID {
		err = fmt.Errorf("it is of chain %d, index.network is chain %d", chain, network.ChainID)
	}
	if err != nil {
		return "", err
	}
	var missing []string
	for _, contract := range []fmt.Stringer{network.Registry, network.Licensing, network.Disputes} {
		code, err := ethCall(ctx, client, "eth_getCode", contract.String(), "latest")
		if err != nil {
			return "", err
		}
		if len(code) <= len("0x") {
			missing = append(missing, contract.String())
		}
	}
	if len(missing) > 0 {
		return "", fmt.Errorf("chain %d has no contract at %s", chain, strings.Join(missing, ", "))
	}
	return fmt.Sprintf("chain %d, block %d, all contracts", chain, head), nil
}

func ethNumber(ctx context.Context, client, method string) (int64, error) {
	said, err := ethCall(ctx, client, method)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseInt(said, 0, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %.30q is no number", method, said)
	}
	return n, nil
}

// ethCall makes one call, whose result is a string.
func ethCall(ctx context.Context, client, method string, params ...string) (string, error) {
	body, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": 1, "method": method, "params": append([]string{}, params...)})
	if err != nil {
		return "", err
	}
	var answer struct {
		Result *string                  `json:"result"`
		Error  struct{ Message string } `json:"error"`
	}
	return ask(ctx, http.MethodPost, client, body, &answer, func(status string) (string, error) {
		if answer.Result == nil {
			return "", fmt.Errorf("%s: %s: %s", method, status, answer.Error.Message)
		}
		return *answer.Result, nil
	})
}

// ask exchanges JSON with an address, whose secrets no error repeats. What was read
// is made of the answer, and of the status of HTTP.
func ask(ctx context.Context, method, address string, body []byte, answer any, read func(status string) (string, error)) (string, error) {
	req, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return "", errors.New("not a URL") // err repeats it
	}
	hide := upstream.NewRedactor(req.URL)
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", upstream.RedactError(upstream.Bare(err), hide)
	}
	defer resp.Body.Close()
	if err := json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(answer); err != nil {
		return "", upstream.RedactError(fmt.Errorf("%s: no JSON-RPC: %w", resp.Status, err), hide)
	}
	text, err := read(resp.Status)
	return hide.Replace(text), upstream.RedactError(err, hide)
}

// findComet asks a CometBFT for its chain and its newest block.
func findComet(ctx context.Context, address string) (string, error) {
	if rest, ok := strings.CutPrefix(address, "tcp://"); ok { // as CometBFT's own configuration has it
		address = "http://" + rest
	}
	var answer struct {
		Result struct {
			NodeInfo struct {
				Network string
				Other   struct {
					TxIndex string `json:"tx_index"`
				}
			} `json:"node_info"`
			SyncInfo struct {
				Height string `json:"latest_block_height"`
			} `json:"sync_info"`
		}
	}
	return ask(ctx, http.MethodGet, strings.TrimSuffix(address, "/")+"/status", nil, &answer, func(status string) (string, error) {
		if answer.Result.SyncInfo.Height == "" {
			return "", fmt.Errorf("%s: /status names no block: it is no CometBFT", status)
		}
		text := fmt.Sprintf("chain %s, block %s", answer.Result.NodeInfo.Network, answer.Result.SyncInfo.Height)
		if index := answer.Result.NodeInfo.Other.TxIndex; index != "" {
			text += ", transaction index " + index
		}
		return text, nil
	})
}
