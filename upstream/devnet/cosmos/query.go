package cosmos

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// A query is a request: the state it reads and its parameters.
type query struct {
	Query  state.Query
	chain  *Chain
	node   state.View
	now    state.Clock
	path   string            // path of its document, if there is one
	vars   map[string]string // values of the names in the pattern
	args   map[string]string // from path and query, by proto name; numbers in base 10, bytes decoded, the first value of lists
	posted txRequest         // the body of a POST
}

// at sets the height to read.
func (q *query) at(height int64) {
	q.Query.State, q.Query.Status, q.Query.Var = q.chain.At(height, q.node), q.args["status"], func(name string) string { return q.args[name] }
	q.Query.Page = state.ReadPage(q.Query.Var)
}

// A parser reads a value as grpc-gateway does, and returns its canonical form.
type parser func(value string) (string, error)

// parsers are the parsers of the fields that are not text, by name.
var parsers = map[string]parser{
	"proposal_id": parseUint, "code_id": parseUint, "group_id": parseUint, "account_id": parseUint, "starting_height": parseUint, "ending_height": parseUint,
	"page": parseUint, "limit": parseUint, "offset": parseUint,
	"height": parseInt, "last_height": parseInt,
	"resolve_denom": parseBool, "prove": parseBool, "count_total": parseBool, "reverse": parseBool,
	"data": parseBytes, "key": parseBytes, "query_data": parseBytes, "address_bytes": parseBytes,
	"proposal_status": enum("v1.ProposalStatus", "PROPOSAL_STATUS_UNSPECIFIED", "PROPOSAL_STATUS_DEPOSIT_PERIOD", "PROPOSAL_STATUS_VOTING_PERIOD",
		"PROPOSAL_STATUS_PASSED", "PROPOSAL_STATUS_REJECTED", "PROPOSAL_STATUS_FAILED"),
	"order_by": enum("tx.OrderBy", "ORDER_BY_UNSPECIFIED", "ORDER_BY_ASC", "ORDER_BY_DESC"),
}

// Integers are read in any base that Go accepts.
var (
	parseUint = of(func(value string) (uint64, error) { return strconv.ParseUint(value, 0, 64) })
	parseInt  = of(func(value string) (int64, error) { return strconv.ParseInt(value, 0, 64) })
	parseBool = of(strconv.ParseBool)
)

// of returns a parser that formats the value as Go prints it.
func of[V any](read func(value string) (V, error)) parser {
	return func(value string) (string, error) {
		v, err := read(value)
		return fmt.Sprint(v), err
	}
}

// parseBytes decodes base64 in either alphabet.
func parseBytes(value string) (string, error) {
	raw, err := base64.StdEncoding.DecodeString(value)
	if err != nil {
		raw, err = base64.URLEncoding.DecodeString(value)
	}
	return string(raw), err
}

// enum returns a parser for the names or numbers of an enum.
func enum(name string, values ...string) parser {
	return func(value string) (string, error) {
		if slices.Contains(values, value) {
			return value, nil
		}
		n, err := strconv.Atoi(value)
		if err != nil || n < 0 || n >= len(values) {
			return "", fmt.Errorf("%s is not a valid %s", value, name)
		}
		return values[n], nil
	}
}

// parse reads the value of a field.
func parse(field, value string) (string, error) {
	if p := parsers[field]; p != nil {
		return p(value)
	}
	return value, nil
}

// pageFields are the fields of the pagination message.
var pageFields = []string{"key", "offset", "limit", "count_total", "reverse"}

// read reads the parameters from path, query and body.
func (q *query) read(r *http.Request, route *route) error {
	q.args = map[string]string{}
	for name, value := range q.vars {
		parsed, err := parse(name, value)
		if err != nil {
			return fmt.Errorf("type mismatch, parameter: %s, error: %w", name, err)
		}
		q.args[name] = parsed
	}
	q.path = route.path(q)
	if route.method == http.MethodPost {
		return json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&q.posted)
	}
	if err := r.ParseForm(); err != nil {
		return err
	}
	return q.populate(route, r.Form)
}

// listSuffix matches a name that carries a value: name[value].
var listSuffix = regexp.MustCompile(`^(.*)\[(.*)\]$`)

// populate reads the parameters of the route. Others are ignored, except below a field that has no subfields, which is
// an error.
func (q *query) populate(route *route, form url.Values) error {
	for _, name := range slices.Sorted(maps.Keys(form)) {
		values := form[name]
		if m := listSuffix.FindStringSubmatch(name); m != nil {
			name, values = m[1], append([]string{m[2]}, values...)
		}
		if err := q.field(route, strings.Split(name, "."), values); err != nil {
			return err
		}
	}
	return nil
}

// field reads one parameter.
func (q *query) field(route *route, names, values []string) error {
	fields := strings.Fields(route.params)
	for field := range q.vars { // the filter knows only the proto name
		if names[0] == field {
			return nil
		}
		if len(fields) > 0 {
			fields = append(fields, field)
		}
	}
	name, known := fieldNamed(fields, names[0])
	if !known {
		return nil
	}
	depth := 1
	if name == "pagination" {
		if len(names) == 1 {
			return fmt.Errorf("field type *query.PageRequest is not supported in query parameters")
		}
		depth = 2
		if name, known = fieldNamed(pageFields, names[1]); !known {
			return nil
		}
	}
	if len(names) > depth {
		return fmt.Errorf("unexpected nested field %s in %s", names[depth], strings.Join(names[:depth], "."))
	}
	value, err := parse(name, values[0])
	if depth == 2 {
		name = "pagination." + name
	}
	q.args[name] = value
	return err
}

// fieldNamed finds a field by its proto name or its JSON name.
func fieldNamed(fields []string, name string) (string, bool) {
	for _, field := range fields {
		if name == field || name == camel(field) {
			return field, true
		}
	}
	return "", false
}

// camel returns the JSON name of a proto name.
func camel(name string) string {
	parts := strings.Split(name, "_")
	for i := range parts[1:] {
		parts[i+1] = strings.ToUpper(parts[i+1][:1]) + parts[i+1][1:]
	}
	return strings.Join(parts, "")
}
