package documented_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy/story/documented"
	"github.com/tipcache/tipcache/upstream/expect"
)

const page = `{"code":200,"msg":{"validators":[` +
	`{"operator_address":"0x1","description":{"moniker":"a \"b\" \\","details":"}],{["},"more":[{"x":[1,{"y":"]"}]},-1.5e3],"tokens":null},` +
	`{"operator_address":"0x2","jailed":false,"status":3,"tokens":"5","tokens":null}],` +
	`"pagination":{"next_key":"AAE=","total":null}},"error":""}`

func TestShapeDoesNotDependOnJSONEncoding(t *testing.T) {
	want := compact(t, shape(t, page).Body)
	var indented bytes.Buffer
	expect.NoError(t, json.Indent(&indented, []byte(page), "\r\n", "\t "))
	for name, raw := range map[string]string{
		"whitespace":      " " + indented.String() + "\n",
		"escaped names":   strings.NewReplacer(`"msg"`, `"\u006dsg"`, `"pagination"`, `"p\u0061gination"`, `"total"`, `"tot\u0061l"`).Replace(page),
		"a second msg":    strings.Replace(page, `"error"`, `"msg":[],"error"`, 1),
		"msg in a member": strings.Replace(page, `"code":200`, `"code":{"msg":{"validators":7}}`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			got := shape(t, raw)
			text := strings.NewReplacer(`\u006d`, `m`, `\u0061`, `a`, `"msg":[],`, ``, `{"msg":{"validators":7}}`, `200`).Replace(compact(t, got.Body))
			expect.NoDiff(t, text, want, "body")
			expect.Equal(t, string(got.Body[got.From:got.To]), `"AAE="`, "next page key")
		})
	}
}

func shape(t *testing.T, raw string) documented.Shaped {
	t.Helper()
	return expect.Value(documented.Shape([]byte(raw), documented.Validators))(t)
}

func compact(t *testing.T, body []byte) string {
	t.Helper()
	var text bytes.Buffer
	expect.NoError(t, json.Compact(&text, body))
	return text.String()
}

func TestPeriodDelegationsMustBeAList(t *testing.T) {
	for msg, want := range map[string]string{
		`{"period_delegation_responses":null,"pagination":{"next_key":"AAE="}}`:     `{"code":200,"msg":[],"error":""}`,
		`{"period_delegation_responses":7}`:                                         "",
		`{"period_delegation_responses":[{}]}`:                                      "",
		`{"period_delegation_responses":[7]}`:                                       "",
		`{"period_delegation_responses":[{"period_delegation":[],"balance":null}]}`: "",
	} {
		got, err := documented.Shape([]byte(`{"code":200,"msg":`+msg+`,"error":""}`), documented.PeriodDelegations)
		if (err != nil) != (want == "") || err == nil && (compact(t, got.Body) != want || got.NextKey != "AAE=") {
			t.Errorf("Shape(%s) = %s with key %q, %v; want %s", msg, got.Body, got.NextKey, err, want)
		}
	}
}

func TestRewardsHaveAnEntryForEachDenomination(t *testing.T) {
	for msg, want := range map[string]string{
		`{}`:                          `{"rewards":[],"total":null}`,
		`{"x":1}`:                     `{"rewards":[],"x":1,"total":null}`,
		`{"rewards":null,"total":[]}`: `{"rewards":[],"total":[]}`,
		`{"rewards":[{"validator_address":"v","reward":[{"denom":"a","amount":"1"},{"denom":"b","amount":"2"}]},{"validator_address":"w","reward":[]}],"total":[]}`: `{"rewards":[{"validator_address":"v","reward":{"denom":"a","amount":"1"}},{"validator_address":"v","reward":{"denom":"b","amount":"2"}},{"validator_address":"w","reward":{"denom":"","amount":"0"}}],"total":[]}`,
		`{"rewards":7}`:   "",
		`{"rewards":[7]}`: "",
		`{"rewards":[{"validator_address":"v","reward":5}]}`: "",
		`[]`: "",
	} {
		got, err := documented.Shape([]byte(`{"code":200,"msg":`+msg+`,"error":""}`), documented.Rewards)
		if (err != nil) != (want == "") || err == nil && compact(t, got.Body) != `{"code":200,"msg":`+want+`,"error":""}` {
			t.Errorf("Shape(%s) = %s, %v; want %s", msg, got.Body, err, want)
		}
	}
}

func TestRedelegationsStayUnchanged(t *testing.T) {
	const body = `{"code":200,"msg":{"redelegation_responses":[null,{},{"redelegation":null,"entries":null}],"pagination":{"total":"0"}},"error":""}`
	got := expect.Value(documented.Shape([]byte(body), documented.Redelegations))(t)
	expect.Equal(t, string(got.Body), body, "body")
}

func TestPeriodDelegationKeepsAllMembers(t *testing.T) {
	for _, inner := range []string{`{"period_delegation_id":"7"}`, `{ }`} {
		item := `{"x":"` + strings.Repeat("x", 20<<10) + `","period_delegation":` + inner + `,"period_delegation_id":"7","y":1}`
		got := expect.Value(documented.Shape([]byte(`{"code":200,"msg":{"period_delegation_responses":[`+item+`]},"error":""}`), documented.PeriodDelegations))(t)
		if !json.Valid(got.Body) || !bytes.Contains(got.Body, []byte(`"y":1`)) {
			t.Errorf("Shape = %.200s..., want JSON with all members", got.Body)
		}
	}
}

func TestPeriodDelegationHasItsBalance(t *testing.T) {
	const item = `{"balance":{"denom":"a","amount":"1"},"period_delegation":{"period_delegation_id":"7"}}`
	got := expect.Value(documented.Shape([]byte(`{"code":200,"msg":{"period_delegation_responses":[`+item+`,`+item+`]},"error":""}`), documented.PeriodDelegations))(t)
	if text := compact(t, got.Body); strings.Count(text, `{"period_delegation_id":"7","balance":{"denom":"a","amount":"1"},`) != 2 {
		t.Errorf("Shape = %s, want two delegations with their balances", text)
	}
}

func TestAnswerOfAnotherShapeIsAnError(t *testing.T) {
	for body, ok := range map[string]bool{
		`{"code":200,"msg":{"validators":[]}}`: true,
		`{"msg":{"validators":[]}}`:            true,
		`{"code":200}`:                         false,
		`{"msg":[]}`:                           false,
		`{"msg":null}`:                         false,
		`[]`:                                   false,
		``:                                     false,
		`{"msg":{"validators":7}}`:             false,
		`{"msg":{"validators":[{"operator_address":"0x1","tokens":"1"}]}}`: true,
		`{"msg":{"validators":[{"operator_address":"0x1","tokens":[]}]}}`:  false,
		`{"msg":{"validators":[{"operator_address":"0x1","tokens":5}]}}`:   false,
		`{"msg":{"validators":[{"operator_address":"0x1","tokens":{}}]}}`:  false,
		`{"msg":{"validators":["v"]}}`:                                     false,
		`{"msg":{"validators":[{"tokens":[]}]}}`:                           false,
		`{"msg":{"validators":[` + strings.Repeat(`{},`, 9999) + `{}]}}`:   false,
	} {
		got, err := documented.Shape([]byte(body), documented.Validators)
		if (err == nil) != ok || err == nil && !json.Valid(got.Body) {
			t.Errorf("Shape(%.60s) = %.60s, %v; want JSON: %t", body, got.Body, err, ok)
		}
	}
	if got, err := documented.Shape([]byte("x"), nil); err != nil || string(got.Body) != "x" {
		t.Errorf("Shape without a schema = %s, %v; want the same body", got.Body, err)
	}
}
