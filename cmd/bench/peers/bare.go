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

// BareCommand is the hidden first argument that turns this program into a bare Gin server, which sends recorded
// responses. It runs in its own process, so that its CPU can be measured.
const BareCommand = "bare-server"

// recordFrom is a request header with a URL. The bare server sends that URL the same request, and later sends the
// response to all requests for the path.
const recordFrom = "X-Record-From"

// startBare starts a bare server. redisAddr names a Redis that has the body of /key/NAME under NAME; "" means no Redis.
// cert is a PEM file with certificate and key; "" disables TLS.
func startBare(ctx context.Context, r *rig.Rig, redisAddr, cert string) *peer {
	addr := rig.FreeAddr()
	url := "http://" + addr
	p := r.Start(ctx, BareCommand+"-"+rig.Port(addr), nil, rig.Must(os.Executable()), BareCommand, addr, redisAddr, cert)
	p.Ready(ctx, rig.Accepts(addr))
	return &peer{Process: p, name: bareName, urls: map[offer]string{plain: url, own: url, rpc: url}}
}

// RunBare serves until the process is killed. Its arguments are the address to listen on, the address of the Redis, and
// the file of the certificate.
func RunBare(_ context.Context, args []string) error {
	if len(args) != 3 {
		return fmt.Errorf("%w: %s ADDRESS REDIS CERT", rig.ErrUsage, BareCommand)
	}
	gin.SetMode(gin.ReleaseMode)
	engine, store := gin.New(), redis.NewClient(&redis.Options{Addr: args[1]})
	engine.NoRoute((&bare{answers: map[string]rig.Response{}}).serve)
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

// bare holds the recorded responses.
type bare struct {
	mu      sync.RWMutex
	answers map[string]rig.Response // by path and query
}

func (b *bare) serve(c *gin.Context) {
	r := c.Request
	var body []byte
	var err error
	if r.ContentLength > 0 {
		body, err = io.ReadAll(r.Body)
	}
	if from := r.Header.Get(recordFrom); from != "" && err == nil {
		err = b.record(r, from, string(body))
	}
	b.mu.RLock()
	a, ok := b.answers[r.RequestURI]
	b.mu.RUnlock()
	if !ok || err != nil {
		http.Error(c.Writer, fmt.Sprint("no recorded response: ", err), http.StatusBadGateway)
		return
	}
	maps.Copy(c.Writer.Header(), a.Header)
	c.Writer.WriteHeader(a.Status)
	_, _ = c.Writer.Write(a.Body) // the client may be gone
}

// record requests a response from a server and stores it, without the headers that belong to a connection.
func (b *bare) record(r *http.Request, from, body string) error {
	var headers []string
	for name := range r.Header {
		headers = append(headers, name+": "+r.Header.Get(name))
	}
	resp, err := rig.Request(r.Context(), from, body, headers...)
	if err != nil {
		return err
	}
	resp.Header.Del("Date")
	resp.Header.Del("Connection")
	b.mu.Lock()
	defer b.mu.Unlock()
	b.answers[r.RequestURI] = resp
	return nil
}
