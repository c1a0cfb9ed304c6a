package peers

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// BareCommand is the hidden first argument that makes this program a bare server: one of Gin
// that does nothing but send bytes it was given. It runs in a process of its own, so that
// its CPU can be told.
const BareCommand = "bare-server"

// recordFrom is the header whose URL a bare server asks what it is asked, to answer with the
// same afterwards.
const recordFrom = "X-Record-From"

// startBare starts a bare server. A Redis, "" for none, has the body of /key/NAME under NAME.
// A certificate is a PEM file with its key, "" for no TLS.
func startBare(ctx context.Context, r *rig.Rig, redisAddr, cert string) *peer {
	addr := rig.FreeAddr()
	url := "http://" + addr
	p := r.Start(ctx, BareCommand+"-"+rig.Port(addr), nil, rig.Must(os.Executable()), BareCommand, addr, redisAddr, cert)
	p.Ready(ctx, rig.Accepts(addr))
	return &peer{Process: p, name: bareName, urls: map[offer]string{plain: url, gzipped: url, own: url, rpc: url}}
}

// RunBare serves until it is killed. Its arguments are its own address, that of a Redis and
// the file of its certificate.
func RunBare(_ context.Context, args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("%w: %s ADDRESS REDIS CERT", rig.ErrUsage, BareCommand)
	}
	gin.SetMode(gin.ReleaseMode)
	engine, store := gin.New(), redis.NewClient(&redis.Options{Addr: args[1]})
	engine.NoRoute((&bare{answers: map[question]rig.Response{}}).serve)
	engine.GET("/key/:name", func(c *gin.Context) {
		body, err := store.Get(c.Request.Context(), c.Param("name")).Bytes()
		if err != nil {
			c.Status(http.StatusBadGateway)
			return
		}
		c.Data(http.StatusOK, "application/json", body)
	})
	server := &http.Server{Addr: args[0], Handler: engine, ReadHeaderTimeout: 5 * time.Second}
	if cert := args[2]; cert != "" {
		return server.ListenAndServeTLS(cert, cert)
	}
	return server.ListenAndServe()
}

// A bare server's memory.
type bare struct {
	mu      sync.RWMutex
	answers map[question]rig.Response
}

// A question is what chooses an answer. Bodies that differ have other lengths, or one meaning.
type question struct {
	uri, tag, coding string
	length           int64
}

func (b *bare) serve(c *gin.Context) {
	r := c.Request
	var body []byte
	var err error
	if r.ContentLength > 0 {
		body, err = io.ReadAll(r.Body)
	}
	q := question{r.RequestURI, r.Header.Get("If-None-Match"), r.Header.Get("Accept-Encoding"), r.ContentLength}
	if from := r.Header.Get(recordFrom); from != "" && err == nil {
		err = b.record(r, q, from, string(body))
	}
	b.mu.RLock()
	a, ok := b.answers[q]
	b.mu.RUnlock()
	if !ok || err != nil {
		http.Error(c.Writer, fmt.Sprint("nothing to answer with: ", err), http.StatusBadGateway)
		return
	}
	maps.Copy(c.Writer.Header(), a.Header)
	c.Writer.WriteHeader(a.Status)
	_, _ = c.Writer.Write(a.Body) // the client may be gone
}

// record asks a server, and keeps what it answers, except for the headers of each connection.
func (b *bare) record(r *http.Request, q question, from, body string) error {
	var headers []string
	for name := range r.Header {
		headers = append(headers, name+": "+r.Header.Get(name))
	}
	resp, err := rig.Ask(r.Context(), from, body, headers...)
	if err != nil {
		return err
	}
	resp.Header.Del("Date")
	resp.Header.Del("Connection")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers[q] = resp
	return nil
}
