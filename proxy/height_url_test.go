package proxy_test

import (
	"bytes"
	"log/slog"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/proxy/web"
	"github.com/tipcache/tipcache/upstream/devnet"
	"github.com/tipcache/tipcache/upstream/expect"
)

// newestBlockControl matches the Cache-Control of a response at the newest block.
var newestBlockControl = regexp.MustCompile(`^public, max-age=[012], s-maxage=[012]$`)

// Some reverse proxies empty a header instead of removing it.
func TestEmptyHeightsAndSessionsAreIgnored(t *testing.T) {
	sdk := newSDK(t, devnet.Options{}, nil)
	sdk.advance(t)
	withAndWithoutLane(t, proxy.Options{}, func(t *testing.T, s *chainService) {
		client := dial(t, s.Listener.Addr())
		for _, name := range []string{"X-Session", "X-Min-Block-Height", "X-Block-Height", "X-Min-Evm-Block"} {
			for range 3 {
				expectBlock(t, name, client.roundTrip(t, strings.TrimSuffix(getPool, "\r\n")+name+": \r\n\r\n"), "228", false)
			}
			sdk.get(t, sdkPool+"?x-block-height=&x-min-block-height=", name, "").expect(t, http.StatusOK)
		}
		if got := s.get(t, anyPath+"?x-block-height=&x-min-block-height=").header.Get("Cache-Control"); !newestBlockControl.MatchString(got) {
			t.Errorf("Cache-Control = %q, want %s", got, newestBlockControl)
		}
		s.get(t, anyPath+"?x-block-height=&x-block-height=100", "X-Block-Height", "").expectHeader(t, "X-Block-Height", "100")
		s.get(t, "/batch?path="+anyPath, "X-Session", "", "X-Block-Height", "").expectHeader(t, "X-Block-Height", "228")
	})
	s := startChain(t, proxy.Options{})
	if got := s.stream(t, anyPath+"?stream.block_height=100&stream.session=", "X-Block-Height", "").next(); !strings.HasPrefix(got, "id: 100.") {
		t.Errorf("event = %q, want one at the height of stream.block_height, 100", got)
	}
}

func TestSDKNodeIsReadAtHeightInURL(t *testing.T) {
	s := newSDK(t, devnet.Options{}, nil)
	s.advance(t)
	pinned := s.get(t, sdkPool+"?x-block-height=1000")
	pinned.expectHeader(t, "X-Cosmos-Block-Height", "1000")
	for _, fixed := range []exchange{pinned, s.get(t, "/cosmos/base/tendermint/v1beta1/blocks/1000")} {
		fixed.expect(t, http.StatusOK)
		fixed.expectHeader(t, "Cache-Control", "public, max-age=86400, immutable")
	}
	s.get(t, "/no/such/path?x-block-height=1000").expect(t, http.StatusNotImplemented)
	s.get(t, sdkPool+"?x-block-height=x").expect(t, http.StatusBadRequest)
	s.get(t, sdkPool+"?x-block-height=1000", "X-Cosmos-Block-Height", "1001").expect(t, http.StatusBadRequest)
	moved := s.get(t, "/cosmos//staking/v1beta1/pool?x-min-block-height=7&pagination.limit=1&x=2&y=%3d")
	moved.expect(t, http.StatusMovedPermanently)
	moved.expectHeader(t, "Location", sdkPool+"?pagination.limit=1&x=2&y=%3d&x-min-block-height=7")
}

func TestStreamIsReadAtBlockInItsURLOrPath(t *testing.T) {
	s := startChain(t, proxy.Options{})
	for target, want := range map[string]string{
		anyPath + "?x-block-height=100":                                       "id: 100.",
		"/live?path=" + anyPath + "%3Fx-block-height%3D100":                   `"height":100`,
		"/live?x-block-height=100&path=" + anyPath:                            `"height":100`,
		"/live?x-block-height=99&path=" + anyPath + "%3Fx-block-height%3D100": `x-block-height is \"99\" and \"100\"`,
	} {
		expect.Contains(t, s.stream(t, target).next(), want, "event of %s", target)
	}
}

func TestHeightInTheURLIsExplainedAndNotLogged(t *testing.T) {
	var log bytes.Buffer
	s := startChain(t, proxy.Options{Web: web.Options{AccessLog: &log, Logger: slog.New(slog.NewTextHandler(&log, nil))}})
	const target = "/staking/validators?pagination.limit=2&x-block-height=100"
	e := explain(t, s.proxy, proxy.Inquiry{URL: target})
	if !strings.HasSuffix(e.Asks, " at block 100") || e.Class != "pinned" {
		t.Errorf("explanation = %s of class %s, want block 100 and class pinned", e.Asks, e.Class)
	}
	s.get(t, target)
	s.Close()
	if text := log.String(); !strings.Contains(text, "pagination.limit=2") || strings.Contains(text, "x-block-height") {
		t.Errorf("log = %s, want the query without x-block-height", text)
	}
}
