package session

import (
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// A history has the same hash for all blocks.
type history string

func (h history) HashOf(int64) string       { return string(h) }
func (history) Replaced(int64, string) bool { return false }

func TestTokenRoundTrips(t *testing.T) {
	for text, want := range map[string]Token{
		"1":                 {1, ""},
		"228.4D0FAE0B5C8A":  {228, "4D0FAE0B5C8A"},
		"228.4d0fae0b":      {228, "4d0fae0b"},
		"12.0123456789abcd": {12, "0123456789abcd"},
	} {
		got, ok := ParseToken(text)
		if !ok || got != want || got.String() != text {
			t.Errorf("ParseToken(%q) = %v, %t; want %v, true", text, got, ok, want)
		}
	}
	for hash, want := range map[string]string{strings.Repeat("AB", 32): "5.ABABABABABAB", "": "5"} {
		expect.Equal(t, TokenAt(5, history(hash)).String(), want, "token of block 5 with hash %q", hash)
	}
}

func TestMalformedTokensAreRefused(t *testing.T) {
	for _, text := range []string{
		"", ".", "0", "-1", "+1", " 1", "1 ", "1.", "1.abc", "1.4D0FAE0", "x", "1.4D0FAE0G", "1,2", "1.4D0FAE0B5C8A, 2.4D0FAE0B5C8A",
		"1.0", "0.4D0FAE0B5C8A", "9223372036854775808", "1." + strings.Repeat("a", 65), "1x4D0FAE0B5C8A", "1.4D0FAE0B.5C8A", "1.4D0FAE0`",
	} {
		if got, ok := ParseToken(text); ok || got != (Token{}) {
			t.Errorf("ParseToken(%q) = %v, %t; want none, false", text, got, ok)
		}
	}
}

// A rolledBack history has replaced all its blocks.
type rolledBack struct{ history }

func (rolledBack) Replaced(int64, string) bool { return true }

func TestTokenWithoutHashIsNeverReplaced(t *testing.T) {
	for _, tt := range []struct {
		token Token
		h     History
		want  bool
	}{
		{Token{5, "ABABABABABAB"}, rolledBack{}, true},
		{Token{5, "ABABABABABAB"}, history(""), false},
		{Token{5, ""}, rolledBack{}, false},
	} {
		expect.Equal(t, tt.token.Replaced(tt.h), tt.want, "Replaced of %v in %T", tt.token, tt.h)
	}
}

func TestWantedBlockIsLastSeenByClient(t *testing.T) {
	tip := node.Tip{Known: true, Epoch: 2, Height: 100, Limit: 110}
	for name, tt := range map[string]struct {
		tip    node.Tip
		epoch  int64 // of the block seen on the connection
		gaveUp bool
		token  int64
		want   int64
	}{
		"a block on the connection":            {tip, 2, false, 0, 101},
		"a block above the token's":            {tip, 2, false, 99, 101},
		"a token above the connection's block": {tip, 2, false, 110, 110},
		"a token above the tip's limit":        {tip, 2, false, 111, 101},
		"a token while the tip has no limit":   {node.Tip{Known: true, Epoch: 2, Height: 100}, 2, false, 999, 999},
		"a block of another epoch":             {tip, 1, false, 0, 0},
		"a block after a wait in vain":         {tip, 2, true, 0, 0},
		"a token after a wait in vain":         {tip, 2, true, 102, 102},
		"a token while the tip is unknown":     {node.Tip{Epoch: 2}, 2, false, 110, 0},
	} {
		var on Seen
		var first, s Session
		first.Arrive(&on)
		first.Show(tt.epoch, 100)
		first.Show(tt.epoch, 101)
		first.Show(tt.epoch, 99)
		first.Show(tt.epoch-1, 105)
		first.Leave()
		if tt.gaveUp {
			first.Arrive(&on)
			first.GiveUp()
		}
		first.shown = seenBlock{tt.epoch, 98, true}
		first.Leave() // changes nothing
		s.Arrive(&on)
		s.Token = Token{Height: tt.token}
		s.Resume(history(""))
		expect.Equal(t, s.Wanted(tt.tip), tt.want, "Wanted with %s", name)
	}
	s := Session{Token: Token{7, "ABABABAB"}}
	if s.Resume(rolledBack{}); !s.Reset || s.Least != 0 {
		t.Errorf("Reset, Least after a rollback = %t, %d; want true, 0", s.Reset, s.Least)
	}
}
