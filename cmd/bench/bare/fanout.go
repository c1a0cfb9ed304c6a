package bare

import (
	"io"
	"net/http"
	"sync"
)

// EventsPath is where a server of the kind FanOut takes events, and streams them.
const EventsPath = "/events"

// A fanOut writes what is posted to every client, and flushes it: the least that
// Go's own server does to stream.
type fanOut struct {
	mu      sync.Mutex
	clients map[chan []byte]struct{}
	last    []byte // what a new client gets first
}

func (f *fanOut) stream(w http.ResponseWriter, r *http.Request) {
	news := make(chan []byte, 1)
	f.mu.Lock()
	f.clients[news] = struct{}{}
	if f.last != nil {
		news <- f.last
	}
	f.mu.Unlock()
	defer func() {
		f.mu.Lock()
		delete(f.clients, news)
		f.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	flusher := http.NewResponseController(w)
	for flusher.Flush() == nil {
		select {
		case event := <-news:
			if _, err := w.Write(event); err != nil {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}

func (f *fanOut) publish(_ http.ResponseWriter, r *http.Request) {
	event, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.last = event
	for news := range f.clients {
		select {
		case news <- event:
		default: // the client is slow
		}
	}
}
