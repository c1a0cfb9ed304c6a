package peers

import (
	"context"
	"embed"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/template"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// Names of the compared servers.
const (
	tipcacheName = "tipcache"
	noLaneName   = "tipcache, no lane"
	nginxName    = "nginx"    // compresses, and writes a buffered access log
	bareName     = "bare gin" // sends recorded responses of tipcache
)

// An offer is a kind of content that some servers have.
type offer int

const (
	plain  offer = iota // the node's responses
	own                 // responses that only tipcache has, and the bare server recorded from it
	rpc                 // RPC calls
	secure              // the node's responses, over TLS
)

// A peer is a server under comparison.
type peer struct {
	*rig.Process
	name      string
	urls      map[offer]string // base URL for each offer
	replica   *rig.Replica     // nil for servers other than tipcache
	accessLog string           // in addition to Log
}

// origin is the upstream of a server. nginx does not know blocks and caches responses for a fixed time.
type origin struct {
	node, comet string
	fresh       time.Duration
	cert        string   // of the server: a PEM file with certificate and key; "" disables TLS
	env         []string // of tipcache, as in KEY=value
}

// before starts a server in front of an origin. The flags are tipcache's.
func before(ctx context.Context, r *rig.Rig, name string, o origin, flags ...string) (p *peer) {
	switch name {
	case nginxName:
		p = startNginx(ctx, r, o)
	case bareName:
		p = startBare(ctx, r, "", o.cert)
	default:
		calls := rig.FreeAddr()
		serving := rig.Serving{Node: o.node, Comet: o.comet, Cert: o.cert, Flags: append(flags[:len(flags):len(flags)], "--rpc-listen", calls), Env: o.env}
		if name == noLaneName {
			serving.Env = append(slices.Clone(o.env), "TIPCACHE_HTTP_FAST_LANE=false")
		}
		t := r.Replica(ctx, serving)
		p = &peer{Process: t.Process, name: name, replica: t, urls: map[offer]string{plain: t.URL, own: t.URL, rpc: "http://" + calls}}
	}
	if o.cert != "" {
		p.urls = map[offer]string{secure: "https" + strings.TrimPrefix(strings.TrimPrefix(p.urls[plain], "https"), "http")}
	}
	return p
}

// beforeAll starts several servers.
func beforeAll(ctx context.Context, r *rig.Rig, names []string, o origin, flags ...string) (all []*peer) {
	for _, name := range names {
		all = append(all, before(ctx, r, name, o, flags...))
	}
	return all
}

var (
	//go:embed *.tmpl
	templateFiles embed.FS
	templates     = template.Must(template.ParseFS(templateFiles, "*.tmpl"))
)

func startNginx(ctx context.Context, r *rig.Rig, o origin) *peer {
	f := r.Nginx(ctx, func(dir, addr string) string {
		return render("nginx.conf.tmpl", map[string]any{"Dir": dir, "Node": rig.Host(o.node), "Fresh": int(o.fresh.Seconds()), "Listen": addr, "Cert": o.cert})
	})
	return &peer{Process: f.Process, name: nginxName, urls: map[offer]string{plain: "http://" + f.Addr}, accessLog: filepath.Join(f.Dir, "access.log")}
}

// render fills in a template and returns the result.
func render(name string, values map[string]any) string {
	var text strings.Builder
	rig.Check(templates.ExecuteTemplate(&text, name, values))
	return text.String()
}

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
