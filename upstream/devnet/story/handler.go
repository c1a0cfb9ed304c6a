package story

import (
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/tipcache/tipcache/upstream/devnet/state"
)

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

// routes returns the paths with computed responses.
func routes() map[string]state.Handler {
	all := map[string]state.Handler{"/staking/total_staked_token": func(q *state.Query) (string, error) {
		bonded, not := q.Staked(state.Bonded)
		return fmt.Sprintf(`{"total_staked_token":"%d"}`, bonded+not), nil
	}}
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
