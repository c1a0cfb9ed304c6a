package proxy_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/tidwall/gjson"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/chain"
	"github.com/tipcache/tipcache/proxy/limits"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/logtest"
	"github.com/tipcache/tipcache/upstream/node"
)

func TestFailuresOfTheNode(t *testing.T) {
	tests := []struct {
		name       string
		err        error
		status     int
		text       string
		retryAfter string
	}{
		{"unreachable", &upstream.Error{Kind: upstream.Unreachable, Msg: "the node cannot be reached", Err: errors.New("dial tcp 10.0.0.1:1317: refused")}, 502, "the node cannot be reached", ""},
		{"silent", &upstream.Error{Kind: upstream.Timeout, Msg: "the node did not answer in time"}, 504, "the node did not answer in time", ""},
		{"spared", &upstream.Error{Kind: upstream.Overloaded, Msg: "the node is busy", RetryAfter: 1500 * time.Millisecond}, 503, "the node is busy", "2"},
		{"spared without a hint", &upstream.Error{Kind: upstream.Overloaded, Msg: "the node is busy"}, 503, "the node is busy", "1"},
		{"broken off", &upstream.Error{Kind: upstream.BadAnswer, Msg: "the node's answer was cut short"}, 502, "the node's answer was cut short", ""},
		{"too many callers", cache.ErrOverloaded, 503, "too many requests are waiting", "1"},
		{"out of time", context.DeadlineExceeded, 504, "no answer in time", ""},
		{"anything else", errors.New("a secret detail"), 500, "internal error", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := startChain(t, proxy.Options{})
			s.chain.fails(tt.err)
			got := s.get(t, anyPath)
			got.refuses(t, tt.status, `{"code":`+strconv.Itoa(tt.status)+`,"msg":{},"error":"`+tt.text+`"}`+"\n")
			got.has(t, "Retry-After", tt.retryAfter)
			got.has(t, "Cache-Control", "no-store")
		})
	}
}

func TestRefusalsOfTheNode(t *testing.T) {
	tests := []struct {
		recording string
		target    string
		status    int
	}{
		{"addr_validator_unknown", "/staking/validators/" + nobody, 404},
		{"pair_delegation_unknown_del", "/staking/validators/" + val5 + "/delegations/" + nobody, 404},
		{"pair_delegator_validator_unknown_del", "/staking/delegators/" + nobody + "/validators/" + val5, 404},
		{"unknown_validator_distribution", "/distribution/validators/" + nobody, 404},
		{"err_bank_supply_no_denom", "/bank/supply/by_denom", 400},
		{"err_staking_historical_info_negative", "/staking/historical_info/7", 400},
	}
	for _, tt := range tests {
		t.Run(tt.recording, func(t *testing.T) {
			s := startChain(t, proxy.Options{})
			a := recorded(t, tt.recording).answer()
			s.chain.does(func(node.Request) (*node.Answer, error) { return a, nil })
			text := a.Text
			if tt.status == 404 {
				text = "nothing found at " + tt.target + ": " + text
			}
			want := `{"code":` + strconv.Itoa(tt.status) + `,"msg":{},"error":"` + text + `"}` + "\n"
			for range 2 {
				got := s.get(t, tt.target)
				got.refuses(t, tt.status, want)
				got.has(t, "Etag", "")
				got.has(t, "X-Block-Height", "228")
			}
			if n := s.chain.calls(); n != 1 {
				t.Errorf("the node was asked %d times, want once: a refusal is an answer", n)
			}
		})
	}
}

func TestAnAnswerSurvivesTheNode(t *testing.T) {
	s := startChain(t, proxy.Options{})
	fresh := s.get(t, anyPath)
	s.chain.fails(&upstream.Error{Kind: upstream.Unreachable, Msg: "gone"})
	s.chain.grow(10)
	got := s.get(t, anyPath)
	if got.status != 200 || got.body != fresh.body {
		t.Errorf("status %d: %s", got.status, got.body)
	}
	got.has(t, "X-Block-Height", "228")
	if status := got.header.Get("Cache-Status"); !strings.Contains(status, "stale-if-error") {
		t.Errorf("Cache-Status: %s", status)
	}
}

func TestAnAnswerSurvivesAFailureTheNodeAdmits(t *testing.T) {
	s := startChain(t, proxy.Options{})
	fresh := s.get(t, anyPath)
	s.chain.says(500, `{"code":500,"msg":null,"error":"something broke"}`)
	s.chain.grow(10)
	if got := s.get(t, anyPath); got.status != 200 || got.body != fresh.body {
		t.Errorf("status %d: %s", got.status, got.body)
	}
}

func TestANodeBehindTheTipDoesNotBlameTheClient(t *testing.T) {
	s := startChain(t, proxy.Options{})
	s.chain.does(func(node.Request) (*node.Answer, error) { return recorded(t, "height_rewards_d2_next").answer(), nil })
	s.get(t, anyPath).refuses(t, 502, `{"code":502,"msg":{},"error":"the chain node is behind the newest block"}`+"\n")
}

func TestAFailureTheNodeAdmitsIsKeptForASecondAtMost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, chain := newChainProxy(t, proxy.Options{})
		chain.says(500, `{"code":500,"msg":null,"error":"something broke"}`)
		for range 2 {
			w := inProcess(h, anyPath, "")
			exchange{w.Code, w.Header(), w.Body.String()}.refuses(t, 502, `{"code":502,"msg":{},"error":"something broke"}`+"\n")
		}
		if n := chain.calls(); n != 1 {
			t.Errorf("the node was asked %d times, want once", n)
		}
		time.Sleep(1050 * time.Millisecond)
		chain.does(nil)
		if got := inProcess(h, anyPath, ""); got.Code != 200 {
			t.Errorf("status %d: %s", got.Code, got.Body)
		}
	})
}

func TestRequestsHaveADeadline(t *testing.T) {
	s := startChain(t, proxy.Options{Web: web.Options{RequestTimeout: 20 * time.Millisecond}})
	release := make(chan struct{})
	defer close(release)
	s.chain.does(func(node.Request) (*node.Answer, error) { <-release; return nil, errors.New("late") })
	s.get(t, anyPath).refuses(t, 504, `{"code":504,"msg":{},"error":"no answer in time"}`+"\n")
}

func TestAPanicIsAnAnswerAndARecord(t *testing.T) {
	var log logtest.Log
	s := startChain(t, proxy.Options{Web: web.Options{AccessLog: &log, Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	s.chain.deafen()
	s.chain.set(func(f *fakeChain) { f.panics = true })
	s.get(t, anyPath).refuses(t, 500, `{"code":500,"msg":{},"error":"internal error"}`+"\n")
	if text := log.String(); !strings.Contains(text, "panic: no tip") || !strings.Contains(text, "chain_fake_test.go") {
		t.Errorf("logged: %s", text)
	}
}

func TestRecordsNameTheClientBehindTrustedProxies(t *testing.T) {
	for trusted, want := range map[string]string{"127.0.0.0/8": "203.0.113.9", "10.0.0.0/8": "127.0.0.1"} {
		var log logtest.Log
		s := startChain(t, proxy.Options{Web: web.Options{
			AccessLog: &log, Logger: slog.New(slog.NewTextHandler(&log, nil)), Limits: limits.Limits{TrustedProxies: []netip.Prefix{netip.MustParsePrefix(trusted)}},
		}})
		const times = 8 // the same bytes: most are answered without being parsed
		for range times {
			s.get(t, anyPath+"?x="+strings.Repeat("y", 3000), "X-Forwarded-For", "198.51.100.1, 203.0.113.9", "User-Agent", "a \"browser\"")
		}
		recorded := func() int { return strings.Count(log.String(), `"msg":"request"`) }
		eventually(t, "all are logged", func() bool { return recorded() == times })
		text := log.String()
		for _, part := range []string{`"client":"` + want + `"`, `"user_agent":"a \"browser\""`, `"query":"x=` + strings.Repeat("y", 2046) + `"`} {
			if got := strings.Count(text, part); got != times {
				t.Errorf("behind %s, %d of %d records have %.40s:\n%.600s", trusted, got, times, part, text)
			}
		}
	}
}

func TestEveryRequestIsRecordedOnce(t *testing.T) {
	var log logtest.Log
	s := startChain(t, proxy.Options{Web: web.Options{AccessLog: &log, Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	began := time.Now()
	s.get(t, anyPath+"?x=y", "X-Request-Id", "a")
	s.get(t, anyPath, "X-Request-Id", "b")
	s.get(t, "/staking/validators/%22%FF%0A", "X-Request-Id", "c")
	s.chain.fails(&upstream.Error{Kind: upstream.Timeout, Msg: "too late", Err: errors.New("after 5s")})
	s.get(t, "/mint/params", "X-Request-Id", "d")
	eventually(t, "all are logged", func() bool { return strings.Count(log.String(), "\n") == 4 })
	want := `{"level":"INFO","msg":"request","method":"GET","route":"pool","path":"/staking/pool","query":"x=y","user_agent":"Go-http-client/1.1","status":200,"bytes":117,"outcome":"miss","store":"","height":228,"tip":228,"request_id":"a","client":"127.0.0.1"}
{"level":"INFO","msg":"request","method":"GET","route":"pool","path":"/staking/pool","user_agent":"Go-http-client/1.1","status":200,"bytes":117,"outcome":"hit","store":"memory","height":228,"tip":228,"request_id":"b","client":"127.0.0.1"}
{"level":"INFO","msg":"request","method":"GET","route":"validator","path":"/staking/validators/\"\ufffd\n","user_agent":"Go-http-client/1.1","status":400,"bytes":129,"outcome":"refused","store":"","height":0,"tip":0,"request_id":"c","client":"127.0.0.1","error":"validator_addr is \"\\\"\\xff\\n\"; expected 0x and 40 hex digits, or a storyvaloper1... address"}
{"level":"ERROR","msg":"request","method":"GET","route":"mint_params","path":"/mint/params","user_agent":"Go-http-client/1.1","status":504,"bytes":41,"outcome":"failed","store":"","height":0,"tip":228,"request_id":"d","client":"127.0.0.1","error":"too late: after 5s"}
`
	if diff := cmp.Diff(want, steady(t, log.String(), began)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

func TestANodeThatIsBehindFailsNobodyWhoHasAnOlderAnswer(t *testing.T) {
	tests := []struct {
		name string
		says func(*fakeChain)
	}{
		{"no node has the block", func(f *fakeChain) {
			f.fails(&upstream.Error{Kind: upstream.Overloaded, Msg: "too far behind", Err: upstream.ErrBehind})
		}},
		{"the node refuses the block", func(f *fakeChain) {
			f.does(func(node.Request) (*node.Answer, error) {
				return &node.Answer{Status: 400, NodeStatus: 500, Reason: node.FutureHeight, Text: "in the future"}, nil
			})
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := startChain(t, proxy.Options{})
			before := s.get(t, anyPath)
			s.chain.grow(1_000_000) // beyond the bounds of any class
			tt.says(s.chain)
			got := s.get(t, anyPath)
			if got.status != 200 || got.body != before.body {
				t.Errorf("status %d: %s", got.status, got.body)
			}
			got.has(t, "X-Block-Height", "228")
			got.has(t, "Cache-Control", "public, max-age=0, s-maxage=0")
			if got := s.get(t, "/mint/params"); got.status < 500 {
				t.Errorf("a request that was never answered got %d", got.status)
			}
		})
	}
}

func TestClientsCannotFloodTheErrorLog(t *testing.T) {
	tests := []struct {
		name    string
		fails   error
		headers []string
		fault   string // as the metrics and the alert have it
	}{
		{"a request that is shed", &upstream.Error{Kind: upstream.Overloaded, Msg: "the node is busy"}, nil, "server"},
		{"too many requests that wait", cache.ErrOverloaded, nil, "server"},
		{"a block that does not come", nil, []string{"X-Min-Block-Height", "999999"}, "input"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var log logtest.Log
			registry := prometheus.NewPedanticRegistry()
			s := startChain(t, proxy.Options{
				Web:   web.Options{AccessLog: &log, Logger: slog.New(slog.NewTextHandler(&log, nil)), Registerer: registry},
				Chain: chain.Options{MinHeightWait: time.Millisecond},
			})
			if tt.fails != nil {
				s.chain.fails(tt.fails)
			}
			got := s.get(t, anyPath, tt.headers...)
			if text := log.String(); got.status < 500 || !strings.Contains(text, `"level":"WARN"`) || strings.Contains(text, "ERROR") {
				t.Errorf("status %d, logged: %s", got.status, text)
			}
			if all := strings.Join(counted(t, registry, "tipcache_proxy_requests_total"), "\n"); !strings.Contains(all, fmt.Sprintf("fault:%q ", tt.fault)) {
				t.Errorf("counted %s, want fault %q", all, tt.fault)
			}
		})
	}
}

var unsteady = regexp.MustCompile(`"(time|duration_ms|age_s)":[^,]*,`)

// steady takes out of records what differs from run to run, once it is seen to
// be of this one.
func steady(t *testing.T, text string, began time.Time) (steady string) {
	t.Helper()
	for line := range strings.Lines(text) {
		at, err := time.Parse(time.RFC3339Nano, gjson.Get(line, "time").Str)
		if err != nil || at.Before(began.Truncate(0)) || time.Since(at) < 0 {
			t.Errorf("a record is of %v, %v", at, err)
		}
		for _, name := range []string{"duration_ms", "age_s"} {
			if n := gjson.Get(line, name); n.Type != gjson.Number || n.Float() < 0 || n.Float() > time.Since(began).Seconds()*1000 {
				t.Errorf("%s is %s", name, n.Raw)
			}
		}
		steady += unsteady.ReplaceAllString(line, "")
	}
	return steady
}
