package peers

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"
	"github.com/valyala/fasthttp"
)

// BareCommand is the hidden first argument that makes this program a bare
// server, in a process of its own so that its CPU can be told.
const BareCommand = "bare-server"

// The kinds of bare servers.
const (
	BareNet  = "net/http"
	BareGin  = "gin"
	BareFast = "fasthttp"
)

// A bareAnswer is what a bare server answers a path with, from memory. The
// headers are all those that tipcache once sent.
type bareAnswer struct {
	Path string
	Post bool                 // of POST: the body is read first
	Body map[string]bareBytes // by content coding, "" for none
	ETag string               // of the plain body: whoever has it gets a 304
}

// bareBytes are one encoding of an answer.
type bareBytes struct {
	Header http.Header
	Body   []byte
}

// RunBare serves until it is killed. It is what Go's own server and Gin can
// do at best: look the path up, set the headers, write the bytes.
func RunBare(args []string) error {
	fs := flag.NewFlagSet(BareCommand, flag.ContinueOnError)
	kind := fs.String("kind", BareGin, "gin, net/http or fasthttp")
	listen := fs.String("listen", "", "address")
	file := fs.String("answers", "", "JSON file with the answers")
	redisAddr := fs.String("redis", "", "address of a Redis that has the body of /key/NAME under NAME")
	if err := fs.Parse(args); err != nil {
		return err
	}
	var answers []*bareAnswer
	if *file != "" {
		text, err := os.ReadFile(*file)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(text, &answers); err != nil {
			return err
		}
	}
	if *kind == BareFast {
		return serveFast(*listen, answers)
	}
	handler, err := bareHandler(*kind, answers, *redisAddr)
	if err != nil {
		return err
	}
	server := &http.Server{Addr: *listen, Handler: handler, ReadHeaderTimeout: 5 * time.Second}
	return server.ListenAndServe()
}

func bareHandler(kind string, answers []*bareAnswer, redisAddr string) (http.Handler, error) {
	switch kind {
	case BareNet:
		mux := http.NewServeMux()
		for _, a := range answers {
			mux.Handle(a.Path, a)
		}
		return mux, nil
	case BareGin:
		gin.SetMode(gin.ReleaseMode)
		engine := gin.New()
		for _, a := range answers {
			engine.Handle(a.method(), a.Path, func(c *gin.Context) { a.ServeHTTP(c.Writer, c.Request) })
		}
		if redisAddr != "" {
			engine.GET("/key/:name", fromRedis(redisAddr))
		}
		return engine, nil
	}
	return nil, fmt.Errorf("no kind of server is called %q", kind)
}

func (a *bareAnswer) method() string {
	if a.Post {
		return http.MethodPost
	}
	return http.MethodGet
}

// choose knows clients that name one coding.
func (a *bareAnswer) choose(tag, coding string) (status int, b bareBytes) {
	if tag != "" && tag == a.ETag {
		return http.StatusNotModified, a.Body["304"]
	}
	if encoded, ok := a.Body[coding]; ok {
		return http.StatusOK, encoded
	}
	return http.StatusOK, a.Body[""]
}

// ServeHTTP is all there is to do for a request.
func (a *bareAnswer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.Post {
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

// fromRedis answers with what Redis has under the name, by one GET.
func fromRedis(addr string) gin.HandlerFunc {
	client := redis.NewClient(&redis.Options{Addr: addr})
	return func(c *gin.Context) {
		body, err := client.Get(c.Request.Context(), c.Param("name")).Bytes()
		if err != nil {
			c.Status(http.StatusBadGateway)
			return
		}
		c.Data(http.StatusOK, "application/json", body)
	}
}

// serveFast serves the answers with fasthttp, which gives up much of net/http for
// its speed.
func serveFast(listen string, answers []*bareAnswer) error {
	byPath := map[string]*bareAnswer{}
	for _, a := range answers {
		byPath[a.Path] = a
	}
	server := &fasthttp.Server{NoDefaultServerHeader: true, Handler: func(c *fasthttp.RequestCtx) {
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
	}}
	return server.ListenAndServe(listen)
}

// fewHeaders nobody leaves out: three of each answer.
var fewHeaders = []string{"Content-Type", "Etag", "Cache-Control", "Content-Length", "Content-Encoding"}

// withFewHeaders are the answers with these headers alone.
func withFewHeaders(answers []bareAnswer) []bareAnswer {
	few := slices.Clone(answers)
	for i := range few {
		few[i].Body = maps.Clone(few[i].Body)
		for coding, b := range few[i].Body {
			kept := maps.Clone(b.Header)
			maps.DeleteFunc(kept, func(name string, _ []string) bool { return !slices.Contains(fewHeaders, name) })
			few[i].Body[coding] = bareBytes{kept, b.Body}
		}
	}
	return few
}
