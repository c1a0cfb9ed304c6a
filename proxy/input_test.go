package proxy_test

import (
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/upstream/expect"
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
