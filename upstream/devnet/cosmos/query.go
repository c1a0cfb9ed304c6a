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
)

// A query is one request: the state it reads and what it asks for.
type query struct {
	state
	chain  *Chain
	node   Node
	now    Clock
	path   string            // as it was routed
	vars   map[string]string // what stands for the names in the pattern of the path
	args   map[string]string // from path and query, by proto name; numbers in base 10, bytes decoded, the first value of lists
	posted txRequest         // the body of a POST

	delegator, operator string // raw addresses of the path
}

// A kind is the type of a field.
type kind int

const (
	text kind = iota
	uint64s
	int64s
	flag
	data
	bech32Text
	proposalStatus
	orderBy
	message
)

// kinds are the fields that are not text, by name.
var kinds = map[string]kind{
	"proposal_id": uint64s, "code_id": uint64s, "group_id": uint64s, "account_id": uint64s, "starting_height": uint64s, "ending_height": uint64s,
	"page": uint64s, "limit": uint64s, "offset": uint64s,
	"height": int64s, "last_height": int64s,
	"resolve_denom": flag, "prove": flag, "count_total": flag, "reverse": flag,
	"data": data, "key": data, "query_data": data, "address_bytes": data,
	"delegator_addr": bech32Text, "voter": bech32Text, "delegator_address": bech32Text, "validator_addr": bech32Text, "validator_address": bech32Text, "cons_address": bech32Text,
	"proposal_status": proposalStatus, "order_by": orderBy, "pagination": message,
}

// pageFields are the fields of the one message among the parameters.
var pageFields = []string{"key", "offset", "limit", "count_total", "reverse"}

// maxBody bounds the body of a POST.
const maxBody = 1 << 20

// read fills the request in from path, query and body.
func (q *query) read(r *http.Request, route *route) error {
	q.args = map[string]string{}
	for name, value := range q.vars {
		parsed, err := parse(kinds[name], value)
		if err != nil {
			return fmt.Errorf("type mismatch, parameter: %s, error: %w", name, err)
		}
		q.args[name] = parsed
	}
	q.path = route.path(q)
	if route.method == http.MethodPost {
		return json.NewDecoder(io.LimitReader(r.Body, maxBody)).Decode(&q.posted)
	}
	if err := r.ParseForm(); err != nil {
		return err
	}
	return q.populate(route, r.Form)
}

// listSuffix is how a name carries a value: name[value].
var listSuffix = regexp.MustCompile(`^(.*)\[(.*)\]$`)

// populate reads the parameters that the route's request has. Others are ignored, but
// for what stands below a field that has nothing below it.
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
	for field := range q.vars { // known to the filter by its proto name alone
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
	if kinds[name] == message {
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
	value, err := parse(kinds[name], values[0])
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

// camel is the JSON name of a proto name.
func camel(name string) string {
	parts := strings.Split(name, "_")
	for i := range parts[1:] {
		parts[i+1] = strings.ToUpper(parts[i+1][:1]) + parts[i+1][1:]
	}
	return strings.Join(parts, "")
}

// parse reads a value as grpc-gateway does: integers in any base of Go, bytes in both alphabets.
func parse(k kind, value string) (string, error) {
	switch k {
	case uint64s:
		n, err := strconv.ParseUint(value, 0, 64)
		return strconv.FormatUint(n, 10), err
	case int64s:
		n, err := strconv.ParseInt(value, 0, 64)
		return strconv.FormatInt(n, 10), err
	case flag:
		b, err := strconv.ParseBool(value)
		return strconv.FormatBool(b), err
	case data:
		raw, err := base64.StdEncoding.DecodeString(value)
		if err != nil {
			raw, err = base64.URLEncoding.DecodeString(value)
		}
		return string(raw), err
	case proposalStatus:
		return enum(value, "v1.ProposalStatus", proposalStatuses)
	case orderBy:
		return enum(value, "tx.OrderBy", []string{"ORDER_BY_UNSPECIFIED", "ORDER_BY_ASC", "ORDER_BY_DESC"})
	default:
		return value, nil
	}
}

// enum reads a value by its name or its number.
func enum(value, name string, values []string) (string, error) {
	if slices.Contains(values, value) {
		return value, nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n >= len(values) {
		return "", fmt.Errorf("%s is not a valid %s", value, name)
	}
	return values[n], nil
}

// proposalStatuses are the states of a proposal, by number.
var proposalStatuses = []string{
	"PROPOSAL_STATUS_UNSPECIFIED", "PROPOSAL_STATUS_DEPOSIT_PERIOD", "PROPOSAL_STATUS_VOTING_PERIOD",
	"PROPOSAL_STATUS_PASSED", "PROPOSAL_STATUS_REJECTED", "PROPOSAL_STATUS_FAILED",
}
