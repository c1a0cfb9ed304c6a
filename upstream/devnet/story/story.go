// Package story simulates the REST API of a Story node: its routes, its envelope and its texts. Staking and its rewards
// change with the blocks. Everything else is a document: each line of documents.jsonl has the pattern of a path and its
// response. In it, ${height}, ${age} and ${chain} are values of the chain, and any other ${name} is a parameter of the
// request. validators.jsonl has the recorded validators.
package story

import (
	"cmp"
	_ "embed"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

// Addresses that exist on every chain and have long lists.
const (
	PopularValidator  = "0x5c8a1d51b8d99f2d7bafd80d19a74003b4e397b0" // Options.Delegators delegations
	WideDelegator     = "0x243b338be72573f04688f16dbc05e281517330d0" // on many validators
	PeriodicDelegator = "0xa82f5d1f204b382d90ca549b695aedb7fde14817" // many period delegations on PopularValidator
)

//go:embed documents.jsonl
var documents []byte

//go:embed validators.jsonl
var validators []byte

// named are recorded delegators of PopularValidator.
var named = []string{PeriodicDelegator, "0x5244f20ed88040a6e54be2bd26f68d993d71b8fd"}

// wide is the number of validators that WideDelegator delegates to.
const wide = 61

// step is the minimum amount of a delegation.
const step = 1_024_000_000_000

// A Chain is the state of a simulated chain. Its nodes share it.
type Chain struct{ state.Chain }

// NewChain makes a chain.
func NewChain(o state.Options) *Chain {
	c := &Chain{}
	c.ID, c.Seed, c.Words = o.ChainID, o.Seed, words
	c.First, c.Pace, c.Step = 5, 5, step
	recorded := state.Lines[json.RawMessage](validators)
	for i := range o.Validators {
		raw, text := digest(o.Seed, "validator", i), string(recorded[min(i, len(recorded)-1)])
		operator := gjson.Get(text, "operator_address").String()
		if i < len(recorded) {
			raw = fromHex(operator)
		}
		v := c.AddValidator(raw, strings.Replace(text, operator, hexText(raw), 1), true)
		if i < wide {
			c.Delegate(fromHex(WideDelegator), v, 2*step, true)
		}
		if v.Status == state.Bonded {
			c.Turns = append(c.Turns, v)
		}
		if len(c.Turns)%3 == 2 { // every third event belongs to the popular validator
			c.Turns = append(c.Turns, c.Validators[0])
		}
	}
	c.Popular = c.Validators[0]
	for i := range o.Delegators - 2 { // the popular validator and the wide delegator come on top
		who := digest(o.Seed, "delegator", i)
		if i < len(named) {
			who = fromHex(named[i])
		}
		c.Delegate(who, c.Popular, step+uint64(i), true) //nolint:gosec // not negative
	}
	c.Order()
	return c
}

func digest(seed uint64, what string, i int) string {
	d := state.Digest(seed, what, int64(i))
	return string(d[:20])
}

func hexText(raw string) string { return "0x" + hex.EncodeToString([]byte(raw)) }

// parseHex reads an address in a path as a node does: any number of bytes, in any case.
func parseHex(text string) (string, error) {
	if !strings.HasPrefix(text, "0x") && !strings.HasPrefix(text, "0X") {
		return "", errors.New("hex string without 0x prefix")
	}
	raw, err := hex.DecodeString(text[2:])
	if err != nil {
		return "", errors.New("invalid hex string")
	}
	return string(raw), nil
}

// fromHex reads a valid address.
func fromHex(text string) string {
	raw, _ := parseHex(text)
	return raw
}

// words are the dialect's notations. Empty values are left out, and some empty lists are null.
var words = state.Words{
	Account: hexText, Operator: hexText, Prefixes: [2]string{"story", "storyvaloper"},
	Delegation: `{"delegation":{"delegator_address":"${delegator}","validator_address":"${validator}","shares":"${tokens}.000000000000000000",` +
		`"rewards_shares":"${tokens}.000000000000000000"},"balance":{"denom":"stake","amount":"${tokens}"}}`,
	Reward: `{"validator_address":"${bech32}","reward":${reward}}`,
	None:   map[string]string{"validators": "null", "unbonding_responses": "null", "reward": "null", "rewards": "null"},
	Pagination: func(next string, total uint64) string {
		var members []string
		if next != "" {
			members = append(members, fmt.Sprintf(`"next_key":%q`, state.Base64(next)))
		}
		if total > 0 {
			members = append(members, fmt.Sprintf(`"total":"%d"`, total))
		}
		return "{" + strings.Join(members, ",") + "}"
	},
}

// flexible is the period delegation of a delegation that is not recorded.
const flexible = `{"period_delegation":{"delegator_address":"${delegator}","validator_address":"${validator}","period_delegation_id":"0",` +
	`"shares":"${tokens}.000000000000000000","rewards_shares":"${tokens}.000000000000000000","end_time":"2026-11-20T11:31:00.835809384Z"},` +
	`"balance":{"denom":"stake","amount":"${tokens}"}}`

func periodDelegations(q *state.Query) (string, error) {
	text, _ := q.Delegation(flexible)
	return q.Paged(`{"period_delegation_responses":[` + text + `],"pagination":{}}`)
}

func periodDelegation(q *state.Query) (string, error) {
	text, ok := q.Delegation(flexible)
	if !ok || q.Var("id") != "0" {
		return "", status.Error(codes.Unknown, "rpc error: code = Internal desc = period delegation does not exist")
	}
	return `{"period_delegation_response":` + text + "}", nil
}

// routes returns the paths with computed responses.
func routes() map[string]state.Handler {
	const periods = "/staking/validators/{validator_addr}/delegators/{delegator_addr}/period_delegations"
	all := map[string]state.Handler{
		"/staking/total_staked_token": func(q *state.Query) (string, error) {
			bonded, not := q.Staked(state.Bonded)
			return fmt.Sprintf(`{"total_staked_token":"%d"}`, bonded+not), nil
		},
		periods: periodDelegations, periods + "/{id}": periodDelegation,
	}
	for _, r := range state.Routes {
		all["/"+r.Module+r.Path] = r.Serve
	}
	return all
}

// Handler returns the REST API of a node. It calls count for every request that reads the state, with the URI and the
// height.
func (c *Chain) Handler(n state.View, count func(uri string, height int64)) http.Handler {
	all, mux := routes(), http.NewServeMux()
	for _, line := range state.Lines[[2]json.RawMessage](documents) {
		pattern, _ := strconv.Unquote(string(line[0]))
		all[pattern] = func(q *state.Query) (string, error) { return q.Answer(string(line[1])) }
	}
	for pattern, serve := range all {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			body, err := c.answer(n, r, count, serve)
			code, text := http.StatusOK, `{"code":200,"msg":`+body+`,"error":""}`
			if err != nil {
				said, _ := json.Marshal(worded(status.Convert(err))) // strings always encode
				code = http.StatusInternalServerError
				if errors.Is(err, errKey) {
					code = http.StatusBadRequest
				}
				text = fmt.Sprintf(`{"code":%d,"msg":null,"error":%s}`, code, said)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, text+"\n") // the client may be gone
		})
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.URL.RawPath = "" // only the decoded path is routed
		mux.ServeHTTP(w, r)
	})
}

// worded returns a node's text of an error.
func worded(f *status.Status) string {
	_, text, module := strings.Cut(f.Message(), ": ") // the SDK appends the module
	switch {
	case f.Code() != codes.Unknown:
		return f.Err().Error()
	case module && strings.HasPrefix(f.Message(), "codespace "):
		return text
	}
	return f.Message()
}

// errKey is a node's error for a page key that it cannot decode.
var errKey = errors.New("1 error(s) decoding:\n\n* error decoding 'pagination.key'")

// answer reads parameters, height and addresses, and then the state.
func (c *Chain) answer(n state.View, r *http.Request, count func(string, int64), serve state.Handler) (string, error) {
	values := r.URL.Query()
	parameter := func(name string) string { return cmp.Or(r.PathValue(name), values.Get(name)) }
	q := &state.Query{Var: parameter, Status: values.Get("status"), Page: state.ReadPage(values.Get)}
	now := n.Now()
	if now.Base64Keys {
		key, err := base64.StdEncoding.DecodeString(q.Key)
		if err != nil {
			return "", fmt.Errorf("%w: %w", errKey, err)
		}
		q.Key = string(key)
	}
	height, err := strconv.ParseInt(r.Header.Get("X-Block-Height"), 10, 64)
	if err != nil || height == 0 {
		height = now.Height
	}
	if code, name, text := now.Unreadable(height); code != 0 {
		if code == 38 {
			name = "invalid request"
		}
		return "", fmt.Errorf("failed to create query context: %s: %s", text, name)
	}
	count(r.RequestURI, height)
	q.State = c.At(height, n)
	for _, name := range []string{"addr", "address"} {
		for who, into := range map[string]*string{"delegator_": &q.Delegator, "validator_": &q.Operator} {
			if text := r.PathValue(who + name); text != "" {
				if *into, err = parseHex(text); err != nil {
					return "", err
				}
			}
		}
	}
	return serve(q)
}
