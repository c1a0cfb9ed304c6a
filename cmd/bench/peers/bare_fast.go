package peers

import (
	"maps"
	"net/http"
	"slices"

	"github.com/valyala/fasthttp"
)

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
		a.serveFast(c)
	}}
	return server.ListenAndServe(listen)
}

func (a *bareAnswer) serveFast(c *fasthttp.RequestCtx) {
	status, b := http.StatusOK, a.Body[""]
	if tag := c.Request.Header.Peek("If-None-Match"); len(tag) > 0 && string(tag) == a.ETag {
		status, b = http.StatusNotModified, a.Body["304"]
	} else if coding := string(c.Request.Header.Peek("Accept-Encoding")); coding != "" {
		b = a.best([]string{coding})
	}
	for name, values := range b.Header {
		c.Response.Header.Set(name, values[0])
	}
	c.SetStatusCode(status)
	c.Response.SetBodyRaw(b.Body)
}

// withFewHeaders are the answers with the three headers that nobody leaves out.
func withFewHeaders(answers []bareAnswer) []bareAnswer {
	few := slices.Clone(answers)
	for i := range few {
		few[i].Body = maps.Clone(few[i].Body)
		for coding, b := range few[i].Body {
			kept := http.Header{}
			for _, name := range []string{"Content-Type", "Etag", "Cache-Control", "Content-Length", "Content-Encoding"} {
				if values, ok := b.Header[name]; ok {
					kept[name] = values
				}
			}
			few[i].Body[coding] = bareBytes{kept, b.Body}
		}
	}
	return few
}
