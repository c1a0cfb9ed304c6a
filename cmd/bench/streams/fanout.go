package streams

import (
	"flag"
	"io"
	"net/http"
	"sync"
	"time"
)

// FanOutCommand is the hidden first argument that makes this program a bare
// fan-out, in a process of its own so that its CPU can be told.
const FanOutCommand = "fan-out"

// fanOutPath is where events are posted, and read.
const fanOutPath = "/events"

// RunFanOut serves until it is killed. It is the least that Go's own server does
// to stream: what is posted is written to every client, and flushed.
func RunFanOut(args []string) error {
	fs := flag.NewFlagSet(FanOutCommand, flag.ContinueOnError)
	listen := fs.String("listen", "", "address")
	if err := fs.Parse(args); err != nil {
		return err
	}
	f := &fanOut{clients: map[chan []byte]struct{}{}}
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+fanOutPath, f.stream)
	mux.HandleFunc("POST "+fanOutPath, f.publish)
	server := &http.Server{Addr: *listen, Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	return server.ListenAndServe()
}

// A fanOut writes events to all its clients.
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
