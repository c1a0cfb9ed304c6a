package peers

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/cmd/bench/rig"
)

// BareCommand is the hidden first argument that makes this program a bare server: one of Gin
// that does nothing but send bytes it was given. It runs in a process of its own, so that
// its CPU can be told.
const BareCommand = "bare-server"

// An answer is what a bare server answers a path with, from memory.
type answer struct {
	Path string
	Body map[string]encoding // by content coding, "" for none; "304" for a client that has the ETag
	ETag string              // of the plain body
}

// An encoding of an answer.
type encoding struct {
	Header http.Header
	Body   []byte
}

// startBareServer starts one, and returns its URL. A Redis, "" for none, has the body of
// /key/NAME under NAME. A certificate is a PEM file with its key, "" for no TLS.
func startBareServer(ctx context.Context, r *rig.Rig, answers []answer, redisAddr, cert string) (*rig.Process, string) {
	addr := rig.FreeAddr()
	name, url := BareCommand+"-"+rig.Port(addr), "http://"+addr
	if cert != "" {
		url = "https://" + addr
	}
	file := r.File(name+".json", string(rig.Must(json.Marshal(answers))))
	p := r.Start(ctx, name, nil, rig.Must(os.Executable()), BareCommand, addr, file, redisAddr, cert)
	p.Ready(ctx, rig.Answers(url+"/"))
	return p, url
}

// RunBare serves until it is killed. Its arguments are its own address, the file of its
// answers, the address of a Redis and the file of its certificate.
func RunBare(_ context.Context, args []string) error {
	if len(args) != 4 {
		return fmt.Errorf("%w: %s ADDRESS FILE REDIS CERT", rig.ErrUsage, BareCommand)
	}
	text, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	var answers []*answer
	if err := json.Unmarshal(text, &answers); err != nil {
		return err
	}
	server := &http.Server{Addr: args[0], Handler: bareHandler(answers, args[2]), ReadHeaderTimeout: 5 * time.Second}
	if cert := args[3]; cert != "" {
		return server.ListenAndServeTLS(cert, cert)
	}
	return server.ListenAndServe()
}

func bareHandler(answers []*answer, redisAddr string) http.Handler {
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
func (a *answer) choose(tag, coding string) (status int, b encoding) {
	if tag != "" && tag == a.ETag {
		return http.StatusNotModified, a.Body["304"]
	}
	if encoded, ok := a.Body[coding]; ok {
		return http.StatusOK, encoded
	}
	return http.StatusOK, a.Body[""]
}

// ServeHTTP sends the answer.
func (a *answer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
