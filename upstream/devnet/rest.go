package devnet

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/tipcache/tipcache/upstream/devnet/cosmos"
)

// A restServer answers as the REST server of a node does.
type restServer struct {
	node    *Node
	mux     *http.ServeMux
	buffers sync.Pool // of *[]byte: long answers would be grown anew each time
}

func newRESTServer(n *Node) *restServer {
	s := &restServer{node: n, mux: http.NewServeMux(), buffers: sync.Pool{New: func() any { return new([]byte) }}}
	all := slices.Clone(routes)
	for pattern, message := range recorded().Answers {
		all = append(all, route{pattern, "", says(string(message))})
	}
	for _, route := range all {
		s.mux.HandleFunc(route.pattern, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, route) })
	}
	return s
}

// ServeHTTP routes by the decoded path alone: any method runs the handler.
func (s *restServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !cosmos.Redirected(w, r) {
		r.URL.RawPath = ""
		s.mux.ServeHTTP(w, r)
	}
}

func (s *restServer) serve(w http.ResponseWriter, r *http.Request, route route) {
	buffer, _ := s.buffers.Get().(*[]byte)
	body, code := s.answer(route, &query{http: r, out: (*buffer)[:0]})
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, _ = w.Write(body) // the client may be gone
	*buffer = body
	s.buffers.Put(buffer)
}

// answer runs a route and wraps its message in the envelope.
func (s *restServer) answer(route route, q *query) ([]byte, int) {
	q.text(`{"code":200,"msg":`)
	if err := s.run(route, q); err != nil {
		text, _ := json.Marshal(err.Error()) // strings always encode
		return fmt.Appendf(q.out[:0], `{"code":500,"msg":null,"error":%s}`+"\n", text), http.StatusInternalServerError
	}
	q.text(`,"error":""}` + "\n")
	return q.out, http.StatusOK
}

func (s *restServer) run(route route, q *query) (err error) {
	if route.request != "" {
		if q.request, err = decode(q.http, route.request); err != nil {
			return err
		}
	}
	height, err := s.heightOf(q.http)
	if err != nil {
		return err
	}
	s.node.asked.count(Asked{URI: q.http.RequestURI, Height: height})
	q.state = s.node.chain.at(height)
	if err := q.addresses(); err != nil {
		return err
	}
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

// addresses reads the delegator and the validator that the path names. The
// words for an empty one are those of the staking service, but for
// distribution about one address.
func (q *query) addresses() (err error) {
	empty := "%s address cannot be empty"
	if strings.HasPrefix(q.http.Pattern, "/distribution/") && strings.Count(q.http.Pattern, "{") == 1 {
		empty = "empty %s address"
	}
	read := func(name string) (raw []byte, err error) {
		text := q.http.PathValue(name)
		if text == "" {
			return nil, nil // not in this path
		}
		if raw, err = parseHex(text); err == nil && len(raw) == 0 {
			err = fmt.Errorf("rpc error: code = InvalidArgument desc = "+empty, name)
		}
		return raw, err
	}
	if q.delegator, err = read("delegator"); err != nil {
		return err
	}
	if q.operator, err = read("validator"); err != nil {
		return err
	}
	if q.validator = q.byOperator[string(q.operator)]; q.validator != nil {
		q.stake = q.validator.find(q.delegator)
	}
	return nil
}
