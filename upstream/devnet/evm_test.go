package devnet_test

import (
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// A reply is a JSON-RPC response.
type reply struct {
	ID     json.RawMessage `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// A logEntry is an event in the form of eth_getLogs.
type logEntry struct {
	Address         string
	Topics          []string
	Data            string
	BlockNumber     string
	TransactionHash string
	BlockHash       string
	LogIndex        string
}

func post(t testing.TB, target, body string) (*http.Response, []byte) {
	t.Helper()
	resp := expect.Value(client.Post(target, "application/json", strings.NewReader(body)))(t)
	defer resp.Body.Close()
	answer := expect.Value(io.ReadAll(resp.Body))(t)
	return resp, answer
}

func call(t testing.TB, target, method, params string) reply {
	t.Helper()
	_, body := post(t, target, fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":[%s]}`, method, params))
	var r reply
	decode(t, string(body), &r)
	return r
}

// result returns the result of a call, which must succeed.
func result[T any](t testing.TB, target, method, params string) (value T) {
	t.Helper()
	r := call(t, target, method, params)
	if r.Error != nil {
		t.Fatalf("%s(%s) = %v, want a result", method, params, *r.Error)
	}
	expect.NoError(t, json.Unmarshal(r.Result, &value))
	return value
}

// logs returns the logs of a range of blocks. more has further members of the filter, and begins with a comma if it is not empty.
func logs(t testing.TB, target string, from, to int64, more string) []logEntry {
	t.Helper()
	return result[[]logEntry](t, target, "eth_getLogs", fmt.Sprintf(`{"fromBlock":"0x%x","toBlock":"0x%x"%s}`, from, to, more))
}

func number(t testing.TB, text string) int64 {
	t.Helper()
	n, ok := new(big.Int).SetString(text, 0)
	if !ok || !n.IsInt64() {
		t.Fatalf("%q is not an int64", text)
	}
	return n.Int64()
}

func wordAt(t testing.TB, data string, i int) string {
	t.Helper()
	at := 2 + 64*i
	if len(data) < at+64 {
		t.Fatalf("data = %s, want at least %d words", data, i+1)
	}
	return "0x" + data[at:at+64]
}

func addressAt(word string) string { return "0x" + word[26:] }

func TestMalformedCallsAreRefused(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Collections: 3})
	for name, c := range map[string]struct {
		method, params string
		code           int
	}{
		"unknown method":          {"eth_sendTransaction", ``, -32601},
		"filter that is a list":   {"eth_getLogs", `[]`, -32602},
		"unknown hash":            {"eth_getLogs", `{"blockHash":"0x` + strings.Repeat("1", 64) + `"}`, -32000},
		"missing contract method": {"eth_call", `{"to":"` + devnet.GroupNFT + `","data":"0x01020304"},"latest"`, 3},
	} {
		t.Run(name, func(t *testing.T) {
			r := call(t, d.EVMURL(), c.method, c.params)
			if r.Error == nil || r.Error.Code != c.code || r.Error.Message == "" || r.Result != nil {
				t.Errorf("%s(%s) = error %+v and result %s, want code %d alone", c.method, c.params, r.Error, r.Result, c.code)
			}
		})
	}
}

// ipRegistered is the first topic of a registration.
const ipRegistered = "0x02ad3a2e0356b65fdfe4a73c825b78071ae469db35162978518b8c258abb3767"

// A registration on Story's test network, in block 23425318. Its URI is left out.
var realRegistration = logEntry{
	Address: "0x77319b4031e6ef1250907aa00018b8b1c67a244b",
	Topics: []string{
		ipRegistered,
		"0x0000000000000000000000000000000000000000000000000000000000000523",
		"0x000000000000000000000000538048a26dbcc7a1dd446762098b0bfafa3a1472",
		"0x0000000000000000000000000000000000000000000000000000000000000023",
	},
	Data: "0x" +
		"0000000000000000000000001653b905597e0f778c0e9c2d8a9d5c003ee56614" +
		"0000000000000000000000000000000000000000000000000000000000000080" +
		"00000000000000000000000000000000000000000000000000000000000000c0" +
		"000000000000000000000000000000000000000000000000000000006aa24b41" +
		"000000000000000000000000000000000000000000000000000000000000001c" +
		"313331353a20417572656d495020436f6c6c656374696f6e2023333500000000" +
		"0000000000000000000000000000000000000000000000000000000000000000",
	BlockNumber: "0x1657126",
}

func TestRegistrationsAreLikeARealOne(t *testing.T) {
	d := start(t, devnet.Options{Interval: -1, Collections: 20})
	for _, g := range logs(t, d.EVMURL(), 0, d.EVMStart(), `,"topics":[["`+ipRegistered+`"]]`) {
		real := realRegistration
		real.Topics = append([]string{ipRegistered}, g.Topics[1:]...)
		real.Data = wordAt(t, g.Data, 0) + real.Data[2+64:2+3*64] + wordAt(t, g.Data, 3)[2:] + real.Data[2+4*64:]
		expect.NoDiff(t, logEntry{Address: g.Address, Topics: g.Topics, Data: g.Data, BlockNumber: real.BlockNumber}, real, "registration")
		if addressAt(wordAt(t, g.Data, 0)) == addressAt(g.Topics[2]) {
			t.Errorf("registration = %+v, want an account that is not the contract", g)
		}
		at := time.Unix(number(t, wordAt(t, g.Data, 3)), 0)
		if at.Before(time.Date(2025, 2, 13, 0, 0, 0, 0, time.UTC)) || at.After(time.Date(2026, 9, 11, 0, 0, 0, 0, time.UTC)) {
			t.Errorf("time of the registration = %v, want one since the network began", at)
		}
	}
}
