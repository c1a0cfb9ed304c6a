package session

import (
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
	"github.com/tipcache/tipcache/upstream/node"
)

// A history has one hash for all blocks.
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
			t.Errorf("%q: %v, %t", text, got, ok)
		}
	}
	if made := TokenAt(5, history(strings.Repeat("AB", 32))); made.String() != "5.ABABABABABAB" {
		t.Errorf("made %s", made)
	}
	if made := TokenAt(5, history("")); made.String() != "5" {
		t.Errorf("made %s of a block without a hash", made)
	}
}

func TestMalformedTokensAreRefused(t *testing.T) {
	for _, text := range []string{
		"", ".", "0", "-1", "+1", " 1", "1 ", "1.", "1.abc", "1.4D0FAE0", "x", "1.4D0FAE0G", "1,2", "1.4D0FAE0B5C8A, 2.4D0FAE0B5C8A",
		"1.0", "0.4D0FAE0B5C8A", "9223372036854775808", "1." + strings.Repeat("a", 65), "1x4D0FAE0B5C8A", "1.4D0FAE0B.5C8A", "1.4D0FAE0`",
	} {
		if got, ok := ParseToken(text); ok || got != (Token{}) {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

// A reset history has replaced all its blocks.
type reset struct{ history }

func (reset) Replaced(int64, string) bool { return true }

func TestTokenWithoutHashIsNeverReplaced(t *testing.T) {
	for _, tt := range []struct {
		token Token
		h     History
		want  bool
	}{
		{Token{5, "ABABABABABAB"}, reset{}, true},
		{Token{5, "ABABABABABAB"}, history(""), false},
		{Token{5, ""}, reset{}, false},
	} {
		expect.Equal(t, tt.token.Replaced(tt.h), tt.want, "Replaced of %v in %T", tt.token, tt.h)
	}
}

func TestWantedBlockIsLastSeenByClient(t *testing.T) {
	tip := node.Tip{Known: true, Epoch: 2, Height: 100, Limit: 110}
	for name, tt := range map[string]struct {
		tip    node.Tip
		epoch  int64 // of the block that was seen on the connection
		gaveUp bool
		token  int64
		want   int64
	}{
		"the connection's":                  {tip, 2, false, 0, 101},
		"the connection's, which is later":  {tip, 2, false, 99, 101},
		"the token's":                       {tip, 2, false, 110, 110},
		"no token's that cannot have come":  {tip, 2, false, 111, 101},
		"a token's where nothing is known":  {node.Tip{Known: true, Epoch: 2, Height: 100}, 2, false, 999, 999},
		"none of another epoch":             {tip, 1, false, 0, 0},
		"none that was waited for in vain":  {tip, 2, true, 0, 0},
		"the token's after a wait in vain":  {tip, 2, true, 102, 102},
		"none while the chain is not known": {node.Tip{Epoch: 2}, 2, false, 110, 0},
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
		expect.Equal(t, s.Wanted(tt.tip), tt.want, "Wanted of %s", name)
	}
	s := Session{Token: Token{7, "ABABABAB"}}
	if s.Resume(reset{}); !s.Reset || s.Least != 0 {
		t.Errorf("after a rollback Reset, Least = %t, %d, want true, 0", s.Reset, s.Least)
	}
}
