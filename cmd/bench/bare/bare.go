// Package bare has servers that do nothing but send bytes they were given, to
// compare tipcache with. Each runs in a process of its own, so that its CPU can be
// told.
package bare

import (
	"context"
	"encoding/json"
	"flag"
	"io"
	"maps"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"
	"github.com/valyala/fasthttp"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// Command is the hidden first argument that makes this program a bare server.
const Command = "bare-server"

// The kinds of bare servers.
const (
	Net    = "net/http"
	Gin    = "gin"
	Fast   = "fasthttp"
	FanOut = "fan-out"
)

// An Answer is what a bare server answers a path with, from memory.
type Answer struct {
	Path string
	Body map[string]Bytes // by content coding, "" for none; "304" for whoever has the ETag
	ETag string           // of the plain body
}

// Bytes are one encoding of an answer.
type Bytes struct {
	Header http.Header
	Body   []byte
}

// Start starts a server of a kind, and returns its URL. A Redis, "" for none, has
// the body of /key/NAME under NAME, which Gin's server answers with.
func Start(ctx context.Context, r *rig.Rig, kind string, answers []Answer, redisAddr string) (*rig.Process, string, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	text, err := json.Marshal(answers)
	if err != nil {
		return nil, "", err
	}
	addr := rig.FreeAddr()
	name, url := Command+"-"+rig.Port(addr), "http://"+addr
	file, err := r.File(name+".json", string(text))
	if err != nil {
		return nil, "", err
	}
	p, err := r.Start(ctx, name, nil, self, Command, "-listen", addr, "-kind", kind, "-answers", file, "-redis", redisAddr)
	if err != nil {
		return nil, "", err
	}
	return p, url, p.Ready(ctx, rig.Answers(url+"/"))
}

// Run serves until it is killed. It is what Go's own server and Gin can do at
// best: look the path up, set the headers, write the bytes.
func Run(_ context.Context, args []string) error {
	fs := flag.NewFlagSet(Command, flag.ContinueOnError)
	kind := fs.String("kind", "", "of the server")
	listen := fs.String("listen", "", "address")
	file := fs.String("answers", "", "JSON file with the answers")
	redisAddr := fs.String("redis", "", "address of a Redis")
	if err := fs.Parse(args); err != nil {
		return err
	}
	text, err := os.ReadFile(*file)
	if err != nil {
		return err
	}
	var answers []*Answer
	if err := json.Unmarshal(text, &answers); err != nil {
		return err
	}
	if *kind == Fast {
		return (&fasthttp.Server{NoDefaultServerHeader: true, Handler: fastHandler(answers)}).ListenAndServe(*listen)
	}
	server := &http.Server{Addr: *listen, Handler: handler(*kind, answers, *redisAddr), ReadHeaderTimeout: 5 * time.Second}
	return server.ListenAndServe()
}

// handler is that of each kind that runs on net/http.
func handler(kind string, answers []*Answer, redisAddr string) http.Handler {
	if kind == Gin {
		return ginHandler(answers, redisAddr)
	}
	mux := http.NewServeMux()
	for _, a := range answers {
		mux.Handle(a.Path, a)
	}
	if kind == FanOut {
		f := &fanOut{clients: map[chan []byte]struct{}{}}
		mux.HandleFunc("GET "+EventsPath, f.stream)
		mux.HandleFunc("POST "+EventsPath, f.publish)
	}
	return mux
}

func ginHandler(answers []*Answer, redisAddr string) http.Handler {
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	for _, a := range answers {
		engine.Any(a.Path, gin.WrapH(a))
	}
	client := redis.NewClient(&redis.Options{Addr: redisAddr})
	engine.GET("/key/:name", func(c *gin.Context) {
		body, err := client.Get(c.Request.Context(), c.Param("name")).Bytes()
		if err != nil {
			c.Status(http.StatusBadGateway)
			return
		}
		c.Data(http.StatusOK, "application/json", body)
	})
	return engine
}

// choose takes an encoding of the answer for clients that accept one coding.
func (a *Answer) choose(tag, coding string) (status int, b Bytes) {
	if tag != "" && tag == a.ETag {
		return http.StatusNotModified, a.Body["304"]
	}
	if encoded, ok := a.Body[coding]; ok {
		return http.StatusOK, encoded
	}
	return http.StatusOK, a.Body[""]
}

// ServeHTTP sends the answer.
func (a *Answer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.ContentLength > 0 {
		if _, err := io.ReadAll(r.Body); err != nil {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
	}
	status, b := a.choose(r.Header.Get("If-None-Match"), r.Header.Get("Accept-Encoding"))
	maps.Copy(w.Header(), b.Header)
	w.WriteHeader(status)
	_, _ = w.Write(b.Body) // the client may be gone
}

// fastHandler is that of fasthttp, which gives up much of net/http for its speed.
func fastHandler(answers []*Answer) fasthttp.RequestHandler {
	byPath := map[string]*Answer{}
	for _, a := range answers {
		byPath[a.Path] = a
	}
	return func(c *fasthttp.RequestCtx) {
		a, ok := byPath[string(c.Path())]
		if !ok {
			c.SetStatusCode(http.StatusNotFound)
			return
		}
		status, b := a.choose(string(c.Request.Header.Peek("If-None-Match")), string(c.Request.Header.Peek("Accept-Encoding")))
		for name, values := range b.Header {
			c.Response.Header.Set(name, values[0])
		}
		c.SetStatusCode(status)
		c.Response.SetBodyRaw(b.Body)
	}
}
