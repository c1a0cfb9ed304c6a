package devnet

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

// A restServer answers as the REST server of a node does.
type restServer struct {
	node    *Node
	buffers sync.Pool // of *[]byte: long answers would be grown anew each time
}

// ServeHTTP routes by path alone: any method runs the handler.
func (s *restServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if clean := cleanPath(r.URL.Path); clean != r.URL.Path {
		redirect(w, r, clean)
		return
	}
	route, vars := findRoute(r.URL.Path)
	if route == nil {
		http.NotFound(w, r)
		return
	}
	buffer, _ := s.buffers.Get().(*[]byte)
	if buffer == nil {
		buffer = new([]byte)
	}
	body, code := s.answer(r, route, &query{vars: vars, out: (*buffer)[:0]})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body) // the client may be gone
	*buffer = body
	s.buffers.Put(buffer)
}

// redirect sends the client to the clean path, without a body.
func redirect(w http.ResponseWriter, r *http.Request, clean string) {
	target := *r.URL
	target.Path, target.RawPath = clean, ""
	w.Header().Set("Location", target.String())
	w.WriteHeader(http.StatusMovedPermanently)
}

// cleanPath resolves // and .. but keeps a trailing slash.
func cleanPath(p string) string {
	clean := path.Clean("/" + p)
	if strings.HasSuffix(p, "/") && clean != "/" {
		clean += "/"
	}
	return clean
}

// answer runs a route and wraps its message in the envelope.
func (s *restServer) answer(r *http.Request, route *route, q *query) ([]byte, int) {
	q.text(`{"code":200,"msg":`)
	if err := s.run(q, r, route); err != nil {
		text, _ := json.Marshal(err.Error()) // strings always encode
		return fmt.Appendf(q.out[:0], `{"code":500,"msg":null,"error":%s}`+"\n", text), http.StatusInternalServerError
	}
	q.text(`,"error":""}` + "\n")
	return q.out, http.StatusOK
}

func (s *restServer) run(q *query, r *http.Request, route *route) error {
	if route.request != "" {
		var err error
		if q.request, err = decode(r, route.request); err != nil {
			return err
		}
	}
	height, err := s.heightOf(r)
	if err != nil {
		return err
	}
	s.node.asked.count(r.URL.RequestURI(), height)
	q.state = s.node.chain.at(height)
	return route.serve(q)
}

// heightOf is the height a request wants to be answered at. What does not
// parse as a number, and zero, mean the latest.
func (s *restServer) heightOf(r *http.Request) (int64, error) {
	latest := s.node.Height()
	height, err := strconv.ParseInt(r.Header.Get("X-Block-Height"), 10, 64)
	if err != nil {
		height = 0 // ParseInt returns a limit when out of range
	}
	switch {
	case height == 0:
		return latest, nil
	case height < 0:
		return 0, errors.New("failed to create query context: cannot query with height < 0; please provide a valid height: invalid request")
	case height > latest:
		return 0, errors.New("failed to create query context: cannot query with height in the future; please provide a valid height: invalid height")
	case height < s.node.oldest():
		return 0, fmt.Errorf("failed to create query context: failed to load state at height %d; version mismatch on immutable IAVL tree; version does not exist. Version has either been pruned, or is for a future block height (latest height: %d): invalid request", height, latest)
	}
	return height, nil
}

// A query is one request being answered: the state it reads, what it asks for
// and the message as far as it is written.
type query struct {
	state
	vars    []string // what stands for {} in the path
	request request
	out     []byte
}

func (q *query) text(s string)                 { q.out = append(q.out, s...) }
func (q *query) textf(format string, a ...any) { q.out = fmt.Appendf(q.out, format, a...) }

// list appends a JSON list after its opening; none is what an empty one is.
func (q *query) list(open string, n int, none string, item func(i int)) {
	q.text(open)
	if n == 0 {
		q.text(none)
		return
	}
	for i := range n {
		if i == 0 {
			q.text("[")
		} else {
			q.text(",")
		}
		item(i)
	}
	q.text("]")
}

// delegator and operator read an address from the path. An empty one
// is refused in the words of the staking service.
func (q *query) delegator(i int) ([]byte, error) {
	return q.address(i, "delegator address cannot be empty")
}

func (q *query) operator(i int) ([]byte, error) {
	return q.address(i, "validator address cannot be empty")
}

// address is one whose refusal has other words when it is empty.
func (q *query) address(i int, ifEmpty string) ([]byte, error) {
	raw, err := parseHex(q.vars[i])
	if err == nil && len(raw) == 0 {
		return nil, fmt.Errorf("rpc error: code = InvalidArgument desc = %s", ifEmpty)
	}
	return raw, err
}

// A pair is a delegator and a validator, whether or not they exist.
type pair struct {
	delegator, operator []byte
	validator           *validator // nil if unknown
	stake               *stake     // nil if there is no delegation
}

// pair reads a delegator and a validator from the path.
func (q *query) pair(delegator, validator int) (pair, error) {
	var p pair
	var err error
	if p.delegator, err = q.delegator(delegator); err != nil {
		return p, err
	}
	if p.operator, err = q.operator(validator); err != nil {
		return p, err
	}
	if p.validator = q.lookup(p.operator); p.validator != nil {
		p.stake = p.validator.find(p.delegator)
	}
	return p, nil
}
