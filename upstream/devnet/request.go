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
// ignore parameters that are not theirs.
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
	for name, field := range map[string]any{
		"status": &req.Status, "denom": &req.Denom, "module_name": &req.ModuleName,
		"src_validator_addr": &req.SrcValidatorAddr, "dst_validator_addr": &req.DstValidatorAddr,
		"starting_height": &req.StartingHeight, "ending_height": &req.EndingHeight,
		"pagination.key": &req.Pagination.Key, "pagination.offset": &req.Pagination.Offset, "pagination.limit": &req.Pagination.Limit,
		"pagination.count_total": &req.Pagination.CountTotal, "pagination.reverse": &req.Pagination.Reverse,
	} {
		if err := p.read(name, field); err != nil {
			bad = append(bad, fmt.Sprintf("* error decoding '%s': %v", name, err))
		}
	}
	if len(bad) == 0 {
		return nil
	}
	slices.Sort(bad)
	return fmt.Errorf("%d error(s) decoding:\n\n%s", len(bad), strings.Join(bad, "\n"))
}

// read parses the first value of a parameter, if there is one, into a field.
func (p parameters) read(name string, field any) (err error) {
	text, ok := p.first(name)
	if !ok {
		return nil
	}
	switch f := field.(type) {
	case *string:
		*f = text
	case *uint64:
		*f, err = strconv.ParseUint(text, 10, 64)
	case *bool:
		*f, err = strconv.ParseBool(text)
	}
	return err
}

// first is the first value of a parameter: by its exact name, else by a name
// that differs in case or by the suffix [].
func (p parameters) first(name string) (string, bool) {
	if values := p[name]; len(values) > 0 {
		return values[0], true
	}
	for other, values := range p {
		if strings.EqualFold(strings.TrimSuffix(other, "[]"), name) {
			return values[0], true
		}
	}
	return "", false
}
