package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/coder/websocket"
)

const (
	maxRPC  = 2 * time.Second // for one call, so that a stuck one does not hold up the headers
	maxRead = 1 << 20         // bytes of a reply or a message; a header has 1.2 KB
)

// A comet speaks with one node's CometBFT RPC.
type comet struct {
	base    *url.URL
	http    *http.Client
	timeout time.Duration
}

func newComet(base *url.URL, o Options) *comet {
	timeout := min(o.Timeout, maxRPC)
	return &comet{base: base, timeout: timeout, http: &http.Client{
		Transport: &http.Transport{
			Proxy:           http.ProxyFromEnvironment,
			DialContext:     (&net.Dialer{Timeout: timeout}).DialContext,
			IdleConnTimeout: o.IdleClose,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// A rpcError is CometBFT's refusal.
type rpcError struct {
	Message string `json:"message"`
	Data    string `json:"data"`
}

func (e *rpcError) Error() string { return e.Message + ": " + e.Data }

// A status is what is used of /status. Its height is not: it runs up to half a
// second ahead of what can be read.
type status struct {
	NodeInfo struct {
		Network string `json:"network"`
	} `json:"node_info"`
	SyncInfo struct {
		LatestBlockTime time.Time `json:"latest_block_time"`
		CatchingUp      bool      `json:"catching_up"`
	} `json:"sync_info"`
}

func (c *comet) status(ctx context.Context) (s status, err error) {
	if err = c.call(ctx, "status", &s); err == nil && s.NodeInfo.Network == "" {
		err = errors.New("/status names no chain")
	}
	return s, err
}

// committed is the newest height that can be read.
func (c *comet) committed(ctx context.Context) (int64, error) {
	var info struct {
		Response struct {
			Height int64 `json:"last_block_height,string"`
		} `json:"response"`
	}
	err := c.call(ctx, "abci_info", &info)
	return info.Response.Height, err
}

func (c *comet) call(ctx context.Context, method string, result any) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.String()+"/"+method, nil)
	if err != nil {
		return bare(err)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return bare(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxRead))
	if err != nil {
		return err
	}
	if err := decode(body, result); err != nil {
		return fmt.Errorf("/%s: status %d: %w", method, response.StatusCode, err)
	}
	return nil
}

// decode reads a JSON-RPC reply.
func decode(data []byte, result any) error {
	var reply struct {
		Result json.RawMessage `json:"result"`
		Error  *rpcError       `json:"error"`
	}
	switch err := json.Unmarshal(data, &reply); {
	case err != nil:
		return err
	case reply.Error != nil:
		return reply.Error
	case reply.Result == nil:
		return errors.New("reply without a result")
	}
	return json.Unmarshal(reply.Result, result)
}

// A header is what is used of a block's header.
type header struct {
	ChainID string    `json:"chain_id"`
	Height  int64     `json:"height,string"`
	Time    time.Time `json:"time"`
}

const subscribe = `{"jsonrpc":"2.0","method":"subscribe","id":1,"params":{"query":"tm.event='NewBlockHeader'"}}`

// A subscription streams the headers of new blocks. A header arrives when its
// block can be read; nothing is replayed after a reconnect.
type subscription struct{ conn *websocket.Conn }

// subscribe connects and waits for the acknowledgement.
func (c *comet) subscribe(ctx context.Context) (*subscription, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	//nolint:bodyclose // the body is the connection, which is closed
	conn, _, err := websocket.Dial(ctx, c.base.String()+"/websocket", &websocket.DialOptions{HTTPClient: c.http})
	if err != nil {
		return nil, bare(err)
	}
	conn.SetReadLimit(maxRead)
	s := &subscription{conn}
	if err := conn.Write(ctx, websocket.MessageText, []byte(subscribe)); err != nil {
		s.close()
		return nil, err
	}
	// A header may overtake the acknowledgement. It is not missed: the caller
	// asks for the height once more after subscribing.
	if _, err := s.next(ctx); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// next waits for a message; the header is zero for an acknowledgement. The
// node says why it ends a subscription, as an rpcError, before it closes.
func (s *subscription) next(ctx context.Context) (header, error) {
	_, data, err := s.conn.Read(ctx)
	if err != nil {
		return header{}, err
	}
	var event struct {
		Data struct {
			Value struct {
				Header header `json:"header"`
			} `json:"value"`
		} `json:"data"`
	}
	err = decode(data, &event)
	return event.Data.Value.Header, err
}

func (s *subscription) close() { _ = s.conn.CloseNow() }
