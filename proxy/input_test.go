package proxy_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy"
)

func TestMalformedInputIsRefusedWithoutAskingTheNode(t *testing.T) {
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
		{"address too long", validators + "/" + val5 + "00", `validator_addr is \"` + val5 + `00\"; ` + anyVal},
		{"address of odd length", validators + "/0x123", `validator_addr is \"0x123\"; ` + anyVal},
		{"address not hex", validators + "/0xzz8a1d51b8d99f2d7bafd80d19a74003b4e397b0", `validator_addr is \"0xzz8a1d51b8d99f2d7bafd80d19a74003b4e397b0\"; ` + anyVal},
		{"address with a space", validators + "/%20" + val5, `validator_addr is \" ` + val5 + `\"; ` + anyVal},
		{"address with a zero byte", validators + "/" + val5[:40] + "%00b", `validator_addr is \"` + val5[:40] + `\\x00b\"; ` + anyVal},
		{"bech32 with a wrong checksum", validators + "/storyvaloper1tj9p65dcmx0j67a0mqx3nf6qqw6w89asd2aep6", `validator_addr is \"storyvaloper1tj9p65dcmx0j67a0mqx3nf6qqw6w89asd2aep6\"; ` + anyVal},
		{"bech32 of another chain", validators + "/cosmosvaloper1qqqsyqcyq5rqwzqfpg9scrgwpugpzysnrujsuw", `validator_addr is \"cosmosvaloper1qqqsyqcyq5rqwzqfpg9scrgwpugpzysnrujsuw\"; ` + anyVal},
		{"account where a validator belongs", validators + "/" + del0Bech32, `validator_addr is \"` + del0Bech32 + `\"; ` + anyVal},
		{"validator where an account belongs", "/staking/delegations/" + val5Bech32, `delegator_addr is \"` + val5Bech32 + `\"; ` + anyAccount},
		{"second address malformed", validators + "/" + val5 + "/delegations/nope", `delegator_addr is \"nope\"; ` + anyAccount},
		{"distribution names it otherwise", "/distribution/delegators/nope/rewards", `delegator_address is \"nope\"; ` + anyAccount},
		{"source validator malformed", "/staking/delegators/" + del0 + "/redelegations?src_validator_addr=nope", `src_validator_addr is \"nope\"; ` + anyVal},
		{"public key of a wrong length", "/slashing/signing_infos/0x02", `pubkey is \"0x02\"; expected 0x and 66 hex digits, a compressed public key of secp256k1`},
		{"public key off the curve", "/slashing/signing_infos/0x02" + strings.Repeat("0", 63) + "5", `pubkey is \"0x02` + strings.Repeat("0", 57) + `…\"; expected 0x and 66 hex digits, a compressed public key of secp256k1`},
		{"public key beyond the field", "/slashing/signing_infos/0x03" + strings.Repeat("f", 64), `pubkey is \"0x03` + strings.Repeat("f", 57) + `…\"; expected 0x and 66 hex digits, a compressed public key of secp256k1`},
		{"height not a number", "/staking/historical_info/abc", `height is \"abc\"; ` + anyUint},
		{"id not digits", validators + "/" + val5 + "/delegators/" + del0 + "/period_delegations/-1", `id is \"-1\"; expected decimal digits`},
		{"starting height negative", "/distribution/validators/" + val5 + "/slashes?starting_height=-1", `starting_height is \"-1\"; ` + anyUint},

		{"limit not a number", validators + "?pagination.limit=abc", `pagination.limit is \"abc\"; ` + anyUint},
		{"limit negative", validators + "?pagination.limit=-1", `pagination.limit is \"-1\"; ` + anyUint},
		{"limit signed", validators + "?pagination.limit=%2B5", `pagination.limit is \"+5\"; ` + anyUint},
		{"limit fractional", validators + "?pagination.limit=1.5", `pagination.limit is \"1.5\"; ` + anyUint},
		{"limit in hex", validators + "?pagination.limit=0x10", `pagination.limit is \"0x10\"; ` + anyUint},
		{"limit with a space", validators + "?pagination.limit=%205", `pagination.limit is \" 5\"; ` + anyUint},
		{"limit beyond 64 bits", validators + "?pagination.limit=18446744073709551616", `pagination.limit is \"18446744073709551616\"; ` + anyUint},
		{"limit above the largest served", validators + "?pagination.limit=100001", `pagination.limit is 100001; at most 100000 is served`},
		{"limit ended by a semicolon", validators + "?pagination.limit=1;status=3", `pagination.limit is \"1;status=3\"; ` + anyUint},
		{"limit with a bad escape", validators + "?pagination.limit=%zz", `pagination.limit is \"%zz\"; expected valid percent-encoding`},
		{"limit long and wrong", validators + "?pagination.limit=" + strings.Repeat("9", 200), `pagination.limit is \"` + strings.Repeat("9", 61) + `…\"; ` + anyUint},
		{"offset negative", validators + "?pagination.offset=-1", `pagination.offset is \"-1\"; ` + anyUint},
		{"offset and limit overflow", validators + "?pagination.offset=18446744073709551615&pagination.limit=10", `pagination.offset and pagination.limit together are too large`},
		{"offset and default limit overflow", validators + "?pagination.offset=18446744073709551600", `pagination.offset and pagination.limit together are too large`},
		{"key and offset", validators + "?pagination.offset=5&pagination.key=FB2Ev0dt4WOSeP1KKu0QG%2B3Cqxj", `pagination.key is \"FB2Ev0dt4WOSeP1KKu0QG+3Cqxj\"; ` + anyKey},
		{"key and a good offset", validators + "?pagination.offset=5&pagination.key=FA6VcrkwMAeEBEomLYfakbTyrOOJ", `only one of pagination.key and pagination.offset may be set`},
		{"key of no form", validators + "?pagination.key=zzzz", `pagination.key is \"zzzz\"; ` + anyKey},
		{"key of a form's length", validators + "?pagination.key=abcdefghijklmnopqrstu", `pagination.key is \"abcdefghijklmnopqrstu\"; ` + anyKey},
		{"key of another list's form", validators + "?pagination.key=MTAxMA%3D%3D", `pagination.key is \"MTAxMA==\"; ` + anyKey},
		{"count_total not a boolean", validators + "?pagination.count_total=notabool", `pagination.count_total is \"notabool\"; ` + anyBool},
		{"reverse not a boolean", validators + "?pagination.reverse=maybe", `pagination.reverse is \"maybe\"; ` + anyBool},
		{"status unknown", validators + "?status=4", `status is \"4\"; ` + anyStatus},
		{"round beyond 32 bits", "/dkg/dkg_network?round=4294967296", `round is \"4294967296\"; expected an unsigned integer of 32 bits`},
		{"round negative", "/dkg/registrations?round=-1", `round is \"-1\"; expected an unsigned integer of 32 bits`},
		{"uuid not a number", "/dkg/cdr_partials?uuid=x&requester_pub_key_hex=" + requesterKey, `uuid is \"x\"; expected an unsigned integer of 32 bits`},
		{"requester's key too short", "/dkg/cdr_partials?requester_pub_key_hex=04ab", `requester_pub_key_hex is \"04ab\"; expected 130 hex digits, an uncompressed public key`},
		{"status garbage", validators + "?status=BOND_STATUS_GARBAGE", `status is \"BOND_STATUS_GARBAGE\"; ` + anyStatus},
	}
	s := startChain(t, proxy.Options{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s.get(t, tt.target).refuses(t, 400, `{"code":400,"msg":{},"error":"`+tt.error+"\"}\n")
		})
	}
	if n := s.chain.calls(); n > 0 {
		t.Errorf("the node was asked %d times", n)
	}
}

func TestEqualRequestsAreAskedAlike(t *testing.T) {
	const key = "FA6VcrkwMAeEBEomLYfakbTyrOOJ" // of val0
	raw := "%14%0E%95r%B90%30%07%84%04J%26-%87%DA%91%B4%F2%AC%E3%89"
	periods := "/staking/validators/" + val5 + "/delegators/" + del1 + "/period_delegations"
	tests := []struct {
		name, asked string
		targets     []string
	}{
		{"addresses in any case and form", "/staking/validators/" + val5, []string{
			"/staking/validators/" + val5, "/staking/validators/0X" + strings.ToUpper(val5[2:]),
			"/staking/validators/0x5C8a1d51b8D99F2D7bafD80D19a74003B4E397B0", "/staking/validators/" + val5Bech32,
			"/staking/validators/" + strings.ToUpper(val5Bech32), "/staking/validators/" + val5 + "?pagination.limit=1&x=y",
			"/staking/validators/" + val5 + "/", "//staking///validators//" + val5 + "//", "/staking/%76alidators/" + val5,
		}},
		{"numbers of 32 bits", "/dkg/dkg_network?round=2", []string{
			"/dkg/dkg_network?round=2", "/dkg/dkg_network?round=002", "/dkg/dkg_network?code_commitment_hex=ab&round=2",
		}},
		{"no number of 32 bits", "/dkg/registrations", []string{"/dkg/registrations", "/dkg/registrations?round=0", "/dkg/registrations?round="}},
		{"a requester's key", "/dkg/cdr_partials?uuid=42&requester_pub_key_hex=" + requesterKey, []string{
			"/dkg/cdr_partials?requester_pub_key_hex=0x" + strings.ToUpper(requesterKey) + "&uuid=42", "/dkg/cdr_partials?uuid=42&requester_pub_key_hex=0X" + requesterKey,
		}},
		{"an account's addresses", "/staking/delegations/" + del0, []string{"/staking/delegations/" + del0, "/staking/delegations/" + del0Bech32}},
		{"what the node does anyway", "/staking/validators", []string{
			"/staking/validators", "/staking/validators?", "/staking/validators?pagination.limit=", "/staking/validators?pagination.limit=0",
			"/staking/validators?pagination.offset=&pagination.count_total=&pagination.reverse=&pagination.key=&status=",
			"/staking/validators?pagination.count_total=true", "/staking/validators?pagination.offset=0&pagination.reverse=false",
			"/staking/validators?PAGINATION.LIMIT=5&pagination.limit[]=5&limit=5&unknown=1", "/staking/validators?%zz=1",
		}},
		{"statuses", "/staking/validators?status=BOND_STATUS_BONDED", []string{
			"/staking/validators?status=3", "/staking/validators?status=bonded", "/staking/validators?status=Bonded",
			"/staking/validators?status=BOND_STATUS_BONDED", "/staking/validators?status=bond_status_bonded", "/staking/validators?status=3&status=1",
		}},
		{"numbers, booleans and order", "/staking/validators?pagination.offset=5&pagination.limit=5&pagination.count_total=true&pagination.reverse=true", []string{
			"/staking/validators?pagination.limit=005&pagination.offset=5&pagination.reverse=1&pagination.count_total=t",
			"/staking/validators?pagination.reverse=TRUE&pagination.limit=5&pagination.count_total=True&pagination.offset=05",
		}},
		{"page keys, raw and in base64", "/staking/validators?pagination.key=%14%0E%95r%B900%07%84%04J%26-%87%DA%91%B4%F2%AC%E3%89&pagination.limit=2", []string{
			"/staking/validators?pagination.limit=2&pagination.key=" + key, "/staking/validators?pagination.limit=2&pagination.key=" + raw,
			"/staking/validators?pagination.limit=2&pagination.key=" + raw + "&pagination.offset=0&pagination.count_total=true",
		}},
		{"page keys of digits", periods + "?pagination.key=1010&pagination.limit=5", []string{
			periods + "?pagination.limit=5&pagination.key=MTAxMA==", periods + "?pagination.limit=5&pagination.key=MTAxMA%3D%3D",
			periods + "?pagination.limit=5&pagination.key=MTAxMA", periods + "?pagination.limit=5&pagination.key=1010",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := startChain(t, proxy.Options{})
			for _, target := range tt.targets {
				s.get(t, target)
				if got := asked(s.chain); got != tt.asked {
					t.Errorf("%s asks %s, want %s", target, got, tt.asked)
				}
			}
			if n := s.chain.calls(); n != 1 {
				t.Errorf("the node was asked %d times, want once", n)
			}
		})
	}
}

// asked is what the node was asked last.
func asked(chain *fakeChain) string {
	r := chain.last()
	return (&url.URL{Path: r.Path, RawQuery: r.Query}).String()
}

func TestPageKeyInBase64SurvivesCarelessClients(t *testing.T) {
	// The bytes are chosen so that both alphabets, padding and a plus sign count.
	const path, raw = "/staking/validators/" + val5 + "/delegations", "\xfb\xef\xbe\xff\xff\xff\xfb\xef\xbe\xff\xff\xff\xfb\xef\xbe\xff\xff\xff\xfb\xef"
	s := startChain(t, proxy.Options{})
	for _, spelled := range []string{
		"%2B%2B%2B%2B////%2B%2B%2B%2B////%2B%2B%2B%2B////%2B%2B8=", "++++////++++////++++////++8=", "++++////++++////++++////++8",
		"----____----____----____--8=", "----____----____----____--8", url.QueryEscape(raw),
	} {
		s.get(t, path+"?pagination.key="+spelled)
		q, err := url.ParseQuery(s.chain.last().Query)
		if err != nil || q.Get("pagination.key") != raw {
			t.Errorf("%s reaches the node as %q (%v)", spelled, s.chain.last().Query, err)
		}
	}
	if n := s.chain.calls(); n != 1 {
		t.Errorf("the node was asked %d times, want once", n)
	}
}

func TestBodiesAreRefused(t *testing.T) {
	s := startChain(t, proxy.Options{})
	want := `{"code":400,"msg":{},"error":"a GET request takes no body"}` + "\n"
	s.do(t, "GET", "/staking/validators", `{"pagination":{"limit":1}}`).refuses(t, 400, want)
	if n := s.chain.calls(); n > 0 {
		t.Errorf("the node was asked %d times", n)
	}
}

func TestParametersThatLookMisspeltAreNamed(t *testing.T) {
	s := startChain(t, proxy.Options{})
	tests := []struct{ name, query, want string }{
		{"a page's parameter without its group", "limit=3", "limit (did you mean pagination.limit?)"},
		{"one with a slip", "pagination.limt=3", "pagination.limt (did you mean pagination.limit?)"},
		{"one in capitals", "STATUS=bonded", "STATUS (did you mean status?)"},
		{"two of them", "limit=3&statsu=bonded", "limit (did you mean pagination.limit?), statsu (did you mean status?)"},
		{"one that is right", "pagination.limit=3", ""},
		{"what is of no kind that we know", "utm_source=x&_=1", ""},
		{"what has no place in a header", "limit%0d%0aX:y=3", ""},
	}
	for _, tt := range tests {
		for range 4 { // however often it comes
			if got := s.get(t, "/staking/validators?"+tt.query).header.Get("X-Unknown-Parameters"); got != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
		}
	}
}
