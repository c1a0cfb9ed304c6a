package devnet

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// A request is every parameter that any route of the node reads. Handlers
// ignore those that are not theirs.
type request struct {
	Status           string
	Denom            string
	ModuleName       string
	SrcValidatorAddr string
	DstValidatorAddr string
	StartingHeight   uint64
	EndingHeight     uint64
	Pagination       pagination
}

// decode reads the query and then the body over it, as the node does for the
// routes that have parameters. The name is that of the node's request type,
// which stands in its texts.
func decode(r *http.Request, name string) (request, error) {
	var req request
	values := parameters(r.URL.Query()) // bad pairs are dropped
	if err := values.into(&req); err != nil {
		return req, fmt.Errorf("decode `server.%s` query err: %w", name, err)
	}
	if r.ContentLength > 0 {
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			return req, fmt.Errorf("decode `server.%s` body err: %w", name, err)
		}
	}
	return req, nil
}

type parameters url.Values

// into fills a request in and reports everything that does not parse.
func (p parameters) into(req *request) error {
	var bad []string
	number := func(field *uint64, name string) {
		read(p, name, &bad, field, func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
	}
	word := func(field *string, name string) {
		read(p, name, &bad, field, func(s string) (string, error) { return s, nil })
	}
	flag := func(field *bool, name string) { read(p, name, &bad, field, strconv.ParseBool) }

	word(&req.Status, "status")
	word(&req.Denom, "denom")
	word(&req.ModuleName, "module_name")
	word(&req.SrcValidatorAddr, "src_validator_addr")
	word(&req.DstValidatorAddr, "dst_validator_addr")
	number(&req.StartingHeight, "starting_height")
	number(&req.EndingHeight, "ending_height")
	word(&req.Pagination.Key, "pagination.key")
	number(&req.Pagination.Offset, "pagination.offset")
	number(&req.Pagination.Limit, "pagination.limit")
	flag(&req.Pagination.CountTotal, "pagination.count_total")
	flag(&req.Pagination.Reverse, "pagination.reverse")
	if len(bad) == 0 {
		return nil
	}
	slices.Sort(bad)
	return fmt.Errorf("%d error(s) decoding:\n\n%s", len(bad), strings.Join(bad, "\n"))
}

// read parses the first value of a parameter into a field.
func read[T any](p parameters, name string, bad *[]string, field *T, parse func(string) (T, error)) {
	text, ok := p.first(name)
	if !ok {
		return
	}
	value, err := parse(text)
	if err != nil {
		*bad = append(*bad, fmt.Sprintf("* error decoding '%s': %v", name, err))
		return
	}
	*field = value
}

// first is the first value of a parameter: by its exact name, else by a name
// that differs in case; a list suffix does no harm.
func (p parameters) first(name string) (string, bool) {
	for _, exact := range []string{name, name + "[]"} {
		if values := p[exact]; len(values) > 0 {
			return values[0], true
		}
	}
	for other, values := range p {
		if strings.EqualFold(strings.TrimSuffix(other, "[]"), name) {
			return values[0], true
		}
	}
	return "", false
}
