package probe

import (
	"bufio"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/heights/comet"
)

const (
	reconnectAfter = time.Second
	firstPause     = 10 * time.Millisecond // before an announced block is read again
	maxPause       = 200 * time.Millisecond
)

// announcements are the results for announced blocks.
type announcements struct {
	offered bool            // the endpoint announces blocks
	delays  []time.Duration // time from each announcement to the first read of the block's state that succeeded; 0 if the first read did
}

// followAnnouncements follows the announcements of the endpoint, by the RPC's events or by the stream of a tipcache, until ctx
// ends.
func (e *endpoint) followAnnouncements(ctx context.Context) {
	var reads sync.WaitGroup
	defer reads.Wait()
	announced := func(height int64) {
		at := time.Now()
		if !e.names(height) {
			return
		}
		reads.Go(func() { e.awaitState(ctx, height, at) })
	}
	listen := e.listenToStream
	if e.api == cometRPC {
		listen = e.listenToEvents
	}
	for offered := false; ; {
		offered = listen(ctx, announced) || offered
		if !offered || upstream.Sleep(ctx, reconnectAfter) != nil {
			return
		}
	}
}

// offers records that the endpoint announces blocks.
func (e *endpoint) offers() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.announced.offered = true
}

// listenToEvents calls announced for each header that CometBFT streams, until the subscription ends. It returns false if
// the endpoint refuses the subscription.
func (e *endpoint) listenToEvents(ctx context.Context, announced func(int64)) bool {
	outage := upstream.NewOutage(slog.New(slog.DiscardHandler), e.name)
	client := comet.New(e.base, nil, timeout, timeout, nil, outage)
	defer client.CloseIdle()
	headers, err := client.Subscribe(ctx)
	if err != nil {
		return false
	}
	e.offers()
	defer headers.Close()
	for {
		h, err := headers.Next(ctx)
		if err != nil {
			return true
		}
		if h.Height > 0 {
			announced(h.Height)
		}
	}
}

// listenToStream calls announced for each block event of the stream that a tipcache offers, until it ends. It returns false if
// the endpoint offers no stream.
func (e *endpoint) listenToStream(ctx context.Context, announced func(int64)) bool {
	path, separator := e.queries[0].path, "?"
	if strings.Contains(path, "?") {
		separator = "&"
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, e.base.String()+path+separator+"stream.blocks=true", nil)
	if err != nil {
		return false
	}
	r.Header.Set("Accept", "text/event-stream")
	client := e.run.newClient()
	defer client.CloseIdleConnections()
	response, err := client.Do(r)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		return false
	}
	e.offers()
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, maxBody)
	for event := ""; lines.Scan(); {
		if name, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			event = name
		} else if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && event == "block" {
			announced(gjson.Get(data, "height").Int())
		}
	}
	return true
}

// awaitState measures how long the state of an announced block cannot be read.
func (e *endpoint) awaitState(ctx context.Context, height int64, announced time.Time) {
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		sent := time.Now()
		if e.hasBlock(ctx, height) {
			delay := time.Duration(0)
			if pause > firstPause {
				delay = sent.Sub(announced)
			}
			e.mu.Lock()
			e.announced.delays = append(e.announced.delays, delay)
			e.mu.Unlock()
			return
		}
		if upstream.Sleep(ctx, pause) != nil {
			return
		}
	}
}

// hasBlock reports whether the state of a block, or of a later one, can be read.
func (s *server) hasBlock(ctx context.Context, height int64) bool {
	for _, q := range s.queries {
		if q.hasHeight() {
			a := s.read(ctx, s.client, q, height)
			return a.problem == "" && (a.height == 0 || a.height >= height)
		}
	}
	a := s.read(ctx, s.client, s.queries[0], 0)
	return a.problem == "" && a.height >= height
}
