package sessions

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/tipcache/tipcache/cmd/bench/clients"
)

// A session is what one client has seen.
type session struct {
	*bed
	clients.Conn
	token  string
	height int64 // of the token
	wrote  int64 // the newest block that it has to see; 0: none
}

// session reads until ctx ends, one answer after another.
func (b *bed) session(ctx context.Context) {
	s := &session{bed: b, Conn: clients.Conn{Addr: b.addr}}
	defer s.Close()
	for ctx.Err() == nil {
		if rand.IntN(20) == 0 {
			s.Close()
		}
		s.read(ctx, paths[rand.IntN(len(paths))])
	}
}

// read reads once, perhaps what a write has changed.
func (s *session) read(ctx context.Context, path string) {
	var headers []string
	if s.token != "" && !s.silent {
		headers = append(headers, "X-Session: "+s.token)
	}
	history, least := s.history.Load(), int64(0)
	if rand.IntN(50) == 0 {
		least = s.chain.Height()
		headers = append(headers, fmt.Sprint("X-Min-Block-Height: ", least))
	}
	r, err := s.Get(ctx, path, headers...)
	switch {
	case ctx.Err() != nil:
	case err != nil || r.Status >= http.StatusInternalServerError:
		s.Add(failures, 1)
	case r.Status == http.StatusConflict:
		s.Add(conflicts, 1)
	default:
		s.Add(reads, 1)
		s.judge(path, r.Header, least)
		s.compare(history, fmt.Sprintf("%s at block %d", path, r.Height()), nextKey.ReplaceAllString(string(r.Body), ""))
	}
}

// nextKey names a block at which a walk goes on, which may be one before the answer's.
var nextKey = regexp.MustCompile(`"next_key":"[^"]*"`)

// compare finds a body that is another than that of the same path and block before. What is
// answered while the chain is set back may be of either history.
func (s *session) compare(history int64, what, body string) {
	if history == 0 || history != s.history.Load() {
		return
	}
	if first, found := s.bodies.LoadOrStore(strconv.FormatInt(history, 10)+what, body); found && first != body {
		s.Blame(other, "%s has two bodies:\n%s%s", what, first, body)
	}
}

// judge looks at an answer, and keeps the greatest token.
func (s *session) judge(path string, h http.Header, least int64) {
	height, _ := strconv.ParseInt(h.Get("X-Block-Height"), 10, 64)
	token := h.Get("X-Session")
	switch {
	case height == 0 || token == "":
		s.Blame(backward, "%s has no session: %v", path, h)
		return
	case h.Get("X-Session-Reset") != "": // the chain was set back, and took writes with it
		s.Add(anew, 1)
		s.token, s.height, s.wrote = token, height, min(s.wrote, height)
		return
	case height < least:
		s.Blame(missed, "%s is of block %d, and block %d was waited for: %v", path, height, least, h)
	case strings.Contains(h.Get("Cache-Status"), "stale-"):
		s.Add(marked, 1)
		if time.Now().UnixMilli() < s.faults.Load() {
			s.Add(faulty, 1)
		}
	case height < s.wrote && !s.silent:
		s.Blame(missed, "%s is of block %d, and the session wrote in block %d: %v", path, height, s.wrote, h)
	case height < s.height:
		s.Blame(backward, "%s is of block %d after an answer of %s: %v", path, height, s.token, h)
	}
	s.wrote = max(s.wrote, least)
	if height >= s.height {
		s.token, s.height = token, height
	}
}
