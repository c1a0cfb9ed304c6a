package proxy_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/story"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

const validatorsAt100 = "/staking/validators?pagination.limit=2&x-block-height=100"

func TestHeightsInTheURLThatCannotBeServedAreRefused(t *testing.T) {
	for target, want := range map[string]string{
		"?x-block-height=0":                          `x-block-height is \"0\"; expected a positive integer`,
		"?x-min-block-height=latest":                 `x-min-block-height is \"latest\"; expected a positive integer, or the X-Session of an answer`,
		"?x-block-height=+5":                         `x-block-height is \" 5\"; expected a positive integer`,
		"?x-block-height=100&x-block-height=101":     `x-block-height is 100 and 101: they must be equal`,
		"?x-block-height=101":                        `X-Block-Height is 100 and x-block-height is 101: they must be equal`,
		"?x-min-block-height=51":                     `X-Min-Block-Height is 50 and x-min-block-height is 51: they must be equal`,
		"?x-block-height=100&x-block-height=100,100": `x-block-height is \"100,100\"; expected a positive integer`,
	} {
		for _, shape := range []story.Shape{story.Documented, story.Node} {
			s := startChain(t, proxy.Options{Chain: story.Options{Shape: shape}})
			got := s.get(t, anyPath+target, "X-Block-Height", "100", "X-Min-Block-Height", "50")
			if got.status != http.StatusBadRequest || !strings.Contains(got.body, want) || s.chain.calls() > 0 {
				t.Errorf("%s: %d %s", target, got.status, got.body)
			}
		}
	}
	s := startChain(t, proxy.Options{})
	s.get(t, anyPath+"?x-block-height=229").refuses(t, 400, `{"code":400,"msg":{},"error":"block 229 is in the future; the newest is 228"}`+"\n")
}

// atTheTip matches the Cache-Control of an answer at the newest block, however much of that block's time is left.
var atTheTip = regexp.MustCompile(`^public, max-age=[012], s-maxage=[012]$`)

// A proxy that is told to drop a header may only empty it.
func TestEmptyHeightsAndSessionsAreIgnored(t *testing.T) {
	sdk := newSDK(t, devnet.Options{}, nil)
	sdk.advance(t)
	sessions(t, proxy.Options{}, func(t *testing.T, s *chainService) {
		client := dial(t, s.Listener.Addr())
		for _, name := range []string{"X-Session", "X-Min-Block-Height", "X-Block-Height", "X-Min-Evm-Block"} {
			for range 3 {
				at(t, name, client.ask(t, strings.TrimSuffix(pool, "\r\n")+name+": \r\n\r\n"), "228", false)
			}
			resp, body := sdk.get(t, sdkPool+"?x-block-height=&x-min-block-height=", name, "")
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %s: %s", name, resp.Status, body)
			}
		}
		if got := s.get(t, anyPath+"?x-block-height=&x-min-block-height=").header.Get("Cache-Control"); !atTheTip.MatchString(got) {
			t.Errorf("Cache-Control = %q, want that of the newest block", got)
		}
		s.get(t, anyPath+"?x-block-height=&x-block-height=100", "X-Block-Height", "").has(t, "X-Block-Height", "100")
		s.get(t, "/batch?path="+anyPath, "X-Session", "", "X-Block-Height", "").has(t, "X-Block-Height", "228")
	})
	s := startChain(t, proxy.Options{})
	if got := s.stream(t, anyPath+"?stream.block_height=100&stream.session=", "X-Block-Height", "").next(); !strings.HasPrefix(got, "id: 100.") {
		t.Errorf("event %q, want one of the block that the option names", got)
	}
}

func TestNodesOfTheSDKAreReadAtAHeightInTheURL(t *testing.T) {
	s := newSDK(t, devnet.Options{}, nil)
	s.advance(t)
	for target, want := range map[string][3]string{
		sdkPool + "?x-block-height=1000":                                                  {"200", "1000", "public, max-age=86400, immutable"},
		"/cosmos/base/tendermint/v1beta1/blocks/1000":                                     {"200", "", "public, max-age=86400, immutable"},
		"/no/such/path?x-block-height=1000":                                               {"501", "", ""},
		sdkPool + "?x-block-height=x":                                                     {"400", "", ""},
		"/cosmos//staking/v1beta1/pool?x-min-block-height=7&pagination.limit=1&x=2&y=%3d": {"301", "", ""},
	} {
		resp, body := s.get(t, target)
		if got := resp.Header.Get("Cache-Control"); got != want[2] && want[2] != "" {
			t.Errorf("%s: Cache-Control: %s", target, got)
		}
		if got := resp.Header.Get("X-Cosmos-Block-Height"); resp.Status[:3] != want[0] || got != want[1] && want[1] != "" {
			t.Errorf("%s: %s at %q: %s", target, resp.Status, got, body)
		}
		if to := resp.Header.Get("Location"); want[0] == "301" && to != sdkPool+"?pagination.limit=1&x=2&y=%3d&x-min-block-height=7" {
			t.Errorf("sent to %s", to)
		}
	}
	resp, _ := s.get(t, sdkPool+"?x-block-height=1000", "X-Cosmos-Block-Height", "1001")
	if resp.StatusCode != http.StatusBadRequest {
		t.Errorf("two heights: %s", resp.Status)
	}
}

func TestStreamIsReadAtBlockInItsURLOrPath(t *testing.T) {
	s := startChain(t, proxy.Options{})
	for target, want := range map[string]string{
		anyPath + "?x-block-height=100":                                       "id: 100.",
		"/live?path=" + anyPath + "%3Fx-block-height%3D100":                   `"height":100`,
		"/live?x-block-height=100&path=" + anyPath:                            `"height":100`,
		"/live?x-block-height=99&path=" + anyPath + "%3Fx-block-height%3D100": "x-block-height is 99 and 100",
	} {
		expect.Contains(t, s.stream(t, target).next(), want, "%s", target)
	}
}

func TestHeightInTheURLIsExplainedAndNotLogged(t *testing.T) {
	var log bytes.Buffer
	s := startChain(t, proxy.Options{Web: web.Options{AccessLog: &log, Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	e := explain(t, s.proxy, proxy.Inquiry{URL: validatorsAt100})
	if !strings.HasSuffix(e.Asks, " at block 100") || e.Class != "pinned" {
		t.Errorf("explained as %s, %s", e.Class, e.Asks)
	}
	s.get(t, validatorsAt100)
	s.Close()
	if text := log.String(); !strings.Contains(text, "pagination.limit=2") || strings.Contains(text, "x-block-height") {
		t.Errorf("logged: %s", text)
	}
}
