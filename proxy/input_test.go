package proxy_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/blocks"
	"github.com/tipcache/tipcache/proxy/dialect"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

func TestMalformedParametersAreRefusedWithoutNodeRequest(t *testing.T) {
	const (
		validators = "/staking/validators"
		anyVal     = "expected 0x and 40 hex digits, or a storyvaloper1... address"
		anyAccount = "expected 0x and 40 hex digits, or a story1... address"
		anyUint    = "expected an unsigned integer"
		anyBool    = "expected true or false"
		anyKey     = "expected the next_key of the page before"
		anyStatus  = "expected 1, 2 or 3, unbonded, unbonding or bonded, or the node's BOND_STATUS_..."
	)
	tests := []struct{ name, target, error string }{
		{"address without 0x", validators + "/" + val5[2:], `validator_addr is \"` + val5[2:] + `\"; ` + anyVal},
		{"address too short", validators + "/0x1234", `validator_addr is \"0x1234\"; ` + anyVal},
		{"address not hex", validators + "/0xzz8a1d51b8d99f2d7bafd80d19a74003b4e397b0", `validator_addr is \"0xzz8a1d51b8d99f2d7bafd80d19a74003b4e397b0\"; ` + anyVal},
		{"address with a zero byte", validators + "/" + val5[:40] + "%00b", `validator_addr is \"` + val5[:40] + `\\x00b\"; ` + anyVal},
		{"bech32 with a wrong checksum", validators + "/storyvaloper1tj9p65dcmx0j67a0mqx3nf6qqw6w89asd2aep6", `validator_addr is \"storyvaloper1tj9p65dcmx0j67a0mqx3nf6qqw6w89asd2aep6\"; ` + anyVal},
		{"account where a validator belongs", validators + "/" + del0Bech32, `validator_addr is \"` + del0Bech32 + `\"; ` + anyVal},
		{"validator where an account belongs", "/staking/delegations/" + val5Bech32, `delegator_addr is \"` + val5Bech32 + `\"; ` + anyAccount},
		{"public key that is not on the curve", "/slashing/signing_infos/0x02" + strings.Repeat("0", 63) + "5", `pubkey is \"0x02` + strings.Repeat("0", 57) + `…\"; expected 0x and 66 hex digits, a compressed public key of secp256k1`},
		{"height not a number", "/staking/historical_info/abc", `height is \"abc\"; ` + anyUint},
		{"id not digits", validators + "/" + val5 + "/delegators/" + del0 + "/period_delegations/-1", `id is \"-1\"; expected decimal digits`},
		{"limit not a number", validators + "?pagination.limit=abc", `pagination.limit is \"abc\"; ` + anyUint},
		{"limit beyond 64 bits", validators + "?pagination.limit=18446744073709551616", `pagination.limit is \"18446744073709551616\"; ` + anyUint},
		{"limit above the largest served", validators + "?pagination.limit=100001", `pagination.limit is 100001; at most 100000 is served`},
		{"limit with a bad escape", validators + "?pagination.limit=%zz", `pagination.limit is \"%zz\"; expected valid percent-encoding`},
		{"offset and limit overflow", validators + "?pagination.offset=18446744073709551615&pagination.limit=10", `pagination.offset and pagination.limit together are too large`},
		{"key and a good offset", validators + "?pagination.offset=5&pagination.key=FA6VcrkwMAeEBEomLYfakbTyrOOJ", `only one of pagination.key and pagination.offset may be set`},
		{"malformed key", validators + "?pagination.key=zzzz", `pagination.key is \"zzzz\"; ` + anyKey},
		{"malformed key of a valid length", validators + "?pagination.key=abcdefghijklmnopqrstu", `pagination.key is \"abcdefghijklmnopqrstu\"; ` + anyKey},
		{"count_total not a boolean", validators + "?pagination.count_total=notabool", `pagination.count_total is \"notabool\"; ` + anyBool},
		{"round beyond 32 bits", "/dkg/dkg_network?round=4294967296", `round is \"4294967296\"; expected an unsigned integer of 32 bits`},
		{"requester's key too short", "/dkg/cdr_partials?requester_pub_key_hex=04ab", `requester_pub_key_hex is \"04ab\"; expected 130 hex digits, an uncompressed public key`},
		{"unknown status", validators + "?status=BOND_STATUS_GARBAGE", `status is \"BOND_STATUS_GARBAGE\"; ` + anyStatus},
	}
	s := startChain(t, proxy.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s.get(t, tt.target).expectRefusal(t, 400, `{"code":400,"msg":{},"error":"`+tt.error+"\"}\n")
		})
	}
	expect.Equal(t, s.chain.calls(), 0, "node requests")
}

func TestProbableTyposOfParametersAreNamedInHeader(t *testing.T) {
	s := startChain(t, proxy.Options{})
	for query, want := range map[string]string{
		"limit=3&statsu=bonded": "limit (did you mean pagination.limit?), statsu (did you mean status?)",
		"STATUS=bonded":         "STATUS (did you mean status?)",
		"limit%0d%0aX:y=3":      "",
	} {
		for range 4 { // the fast lane must not serve repeated requests
			s.get(t, "/staking/validators?"+query).expectHeader(t, "X-Unknown-Parameters", want)
		}
	}
}

func TestAnswerThatCannotBeShapedIsABadGateway(t *testing.T) {
	const rewards, periods = "/distribution/delegators/" + del0 + "/rewards", "/staking/validators/" + val5 + "/delegators/" + del1 + "/period_delegations"
	list := func(item string, n int) string { return "[" + strings.Repeat(item+",", n-1) + item + "]" }
	tests := []struct{ name, target, msg string }{
		{"validators without an address", longPath, `{"validators":` + list("{}", 350_001) + `}`},
		{"one validator without an address", longPath, `{"validators":[{"operator_address":"0x01"},{}]}`},
		{"validators that are null", longPath, `{"validators":[null]}`},
		{"delegations of no delegator", "/staking/delegations/" + del0, `{"delegation_responses":[{"delegation":{"validator_address":"x"}}]}`},
		{"period delegations without an id", periods, `{"period_delegation_responses":[{"period_delegation":{"delegator_address":"x","validator_address":"y"}}]}`},
		{"rewards of no validator", rewards, `{"rewards":[{"reward":[]}]}`},
		{"validators with an empty address only", longPath, `{"validators":` + list(`{"operator_address":""}`, 5000) + `}`},
		{"rewards in thousands of denoms", rewards, `{"rewards":[{"validator_address":"x","note":"` + strings.Repeat("x", 10_000) + `","reward":` + list("{}", 10_000) + `}]}`},
		{"empty periods", "/staking/params", `{"params":{"periods":` + list("{}", 50_000) + `}}`},
	}
	s := startChain(t, proxy.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s.chain.reply(http.StatusOK, `{"code":200,"msg":`+tt.msg+`,"error":""}`)
			s.chain.grow(1000)
			s.get(t, tt.target).expectRefusal(t, http.StatusBadGateway, `{"code":502,"msg":{},"error":"the chain node's answer cannot be understood"}`+"\n")
		})
	}
}

func TestNodeGetsUnescapedPaths(t *testing.T) {
	tests := []struct{ name, target, want string }{
		{"an escaped plus sign", "/upgrade/applied_plan/%2Bb", "/upgrade/applied_plan/+b"},
		{"an escaped percent sign", "/upgrade/applied_plan/%252Bb", "/upgrade/applied_plan/%2Bb"},
		{"a space", "/upgrade/applied_plan/a%20b", "/upgrade/applied_plan/a b"},
		{"a question mark", "/upgrade/applied_plan/a%3Fb", "/upgrade/applied_plan/a?b"},
		{"a name of three dots", "/upgrade/applied_plan/...", "/upgrade/applied_plan/..."},
	}
	for _, shape := range []story.Shape{story.Documented, story.Node} {
		s := startChain(t, proxy.Options{Story: story.Options{Shape: shape}})
		for _, tt := range tests {
			t.Run(fmt.Sprintf("%s, %s", tt.name, shape), func(t *testing.T) {
				s.chain.grow(1000)
				s.get(t, tt.target)
				expect.Equal(t, s.chain.lastRequest().Path, tt.want, "path of the node request")
			})
		}
	}
}

func TestDotSegmentsNeverReachTheNode(t *testing.T) {
	for _, shape := range []story.Shape{story.Documented, story.Node} {
		s := startChain(t, proxy.Options{Story: story.Options{Shape: shape}})
		for _, target := range []string{
			"/upgrade/applied_plan/..", "/upgrade/applied_plan/.", "/upgrade/applied_plan/%2e%2E", "/staking/validators/../delegations", "/staking/../staking/pool", "/../x",
			"/staking/validators/" + val5 + "/delegations/%2e.",
		} {
			got := s.get(t, target)
			got.expect(t, http.StatusNotFound)
			if strings.Contains(got.body, string(shape)+"/") {
				t.Errorf("%s, %s: body = %q, want no cache prefix in it", shape, target, got.body)
			}
		}
		expect.Equal(t, s.chain.calls(), 0, "%s: node requests", shape)
	}
}

const newPath = "/dkg/committee/history"

// startNewer starts a proxy whose node has newPath, which no row describes.
func startNewer(t *testing.T, shape story.Shape, rows ...dialect.Row) *chainService {
	t.Helper()
	s := startChain(t, proxy.Options{Story: story.Options{Shape: shape}, Rows: rows})
	s.chain.byTarget[newPath+"?"] = recording{Status: 200, Raw: `{"code":200,"msg":{"b":1,"a":null},"error":""}` + "\n"}
	return s
}

func TestUnknownPathIsReadOncePerBlock(t *testing.T) {
	for _, shape := range []story.Shape{story.Documented, story.Node} {
		s := startNewer(t, shape)
		for range 2 {
			got := s.get(t, newPath)
			got.expect(t, http.StatusOK, `{"code":200,"msg":{"b":1,"a":null},"error":""}`+"\n")
			got.expectHeader(t, "X-Block-Height", "")
		}
		s.chain.grow(1)
		s.get(t, newPath)
		expect.Equal(t, s.chain.calls(), 2, "%s: node requests in two blocks", shape)
		if r := s.chain.lastRequest(); r.Cost != node.Unknown || !r.Unpinned || r.Post != nil || r.Ahead || r.Background {
			t.Errorf("%s: node request = %+v, want an unpinned foreground GET of cost unknown", shape, r)
		}
	}
}

func TestUnknownPathIsNeitherStreamedNorPolledNorBatched(t *testing.T) {
	s := startNewer(t, story.Documented)
	streamed, polled := s.get(t, newPath, "Accept", "text/event-stream"), s.get(t, newPath+"?since=0")
	streamed.expect(t, http.StatusOK)
	streamed.expectHeader(t, "Content-Type", "application/json")
	polled.expect(t, http.StatusOK)
	polled.expectHeader(t, "Link", "")
	for _, target := range []string{"/live?path=" + newPath, "/batch?path=" + newPath} {
		s.get(t, target).expect(t, http.StatusBadRequest, "this server does not know "+newPath+", and passes it to a node only if it is requested alone")
	}
}

// If a row names a path, its responses are read from the state at a block, and its parameters are checked.
func TestRowOfOperatorMakesPathKnown(t *testing.T) {
	rows := []dialect.Row{
		{Name: "history", Pattern: newPath, Class: blocks.Live, Cost: node.Cheap, Query: "round delegator_addr kind pagination"},
		{Name: "prices", Pattern: "/oracle/{path=**}", Class: blocks.Never, Cost: node.Cheap, Query: "*"},
	}
	for _, shape := range []story.Shape{story.Documented, story.Node} {
		s := startNewer(t, shape, rows...)
		for range 2 {
			s.get(t, newPath).expectHeader(t, "X-Block-Height", "228")
			s.get(t, newPath, "X-Block-Height", "100").expectHeader(t, "X-Block-Height", "100")
		}
		s.get(t, newPath+"?kind=b&round=7&other=1&pagination.key=MTAxNA==")
		if r := s.chain.lastRequest(); s.chain.calls() != 3 || r.Query != "round=7&kind=b&pagination.key=MTAxNA%3D%3D" || r.Unpinned || r.Cost != node.Cheap {
			t.Errorf("%s: node requests = %d, the last %+v; want 3, the last with the named parameters", shape, s.chain.calls(), r)
		}
		s.chain.reply(http.StatusOK, `{"code":200,"msg":{},"error":""}`)
		for range 2 {
			s.get(t, "/oracle/a/b?x=2&x=1").expectHeader(t, "Cache-Status", "tipcache; fwd=bypass")
		}
		if r := s.chain.lastRequest(); s.chain.calls() != 5 || r.Path != "/oracle/a/b" || r.Query != "x=2&x=1" {
			t.Errorf("%s: node requests = %d, the last %+v; want 5, the last with all parameters", shape, s.chain.calls(), r)
		}
	}
	s := startNewer(t, story.Documented, rows...)
	s.get(t, newPath+"?delegator_addr=nope").expect(t, http.StatusBadRequest)
	s.get(t, "/openapi.json").expect(t, http.StatusOK, `"`+newPath+`"`)
	if !slices.ContainsFunc(story.Rows(rows), func(r dialect.Row) bool { return r.Name == "history" }) {
		t.Error("story.Rows has no row history, want the operator's rows in it")
	}
}
