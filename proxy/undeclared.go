package proxy

import (
	"errors"
	"net/http"
	"sync"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/web"
)

// errUndeclared answers whatever may be the chain's until a node says what it speaks: in the wrong
// dialect a path is another one.
var errUndeclared = &web.Failure{
	Status: http.StatusServiceUnavailable, RetryAfter: time.Second, Expected: true,
	Public: "no node of the chain has answered yet, so it is not known what its nodes speak",
}

// An undeclared chain is one of which it is not known what its nodes speak. It keeps what is set.
type undeclared struct {
	mu      sync.Mutex
	classes blocks.Classes
	own     map[string]cache.Policy
}

func (u *undeclared) Admit(*gin.Context, *web.Record) error { return errUndeclared }

func (u *undeclared) SetClasses(classes blocks.Classes, own map[string]cache.Policy) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.classes, u.own = classes, own
	return nil
}

func (u *undeclared) SelectRoute(string) (cache.Selection, error) {
	return cache.Selection{}, errUndeclared
}

func (u *undeclared) SelectAddress(string) (cache.Selection, error) {
	return cache.Selection{}, errUndeclared
}

// SetDialect says what the nodes speak to a Server that did not know: the dialect of Story where c is nil.
func (s *Server) SetDialect(c *Cosmos) error {
	u, ok := s.now().chain.(*undeclared)
	if !ok {
		return errors.New("proxy: it is known what the nodes speak")
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	o := s.o
	o.Cosmos, o.Undeclared, o.Chain.Classes, o.Chain.Routes = c, false, u.classes, u.own
	next := newServer(o, s.stack)
	next.list, next.streams = s.list, s.streams
	if err := next.mountAll(); err != nil {
		return err
	}
	s.successor.Store(next)
	s.Forget()
	return nil
}
