package session

import (
	"strings"
	"testing"
)

// A history has one hash for all blocks.
type history string

func (h history) HashOf(int64) string       { return string(h) }
func (history) Replaced(int64, string) bool { return false }

func TestATokenIsReadAsItWasMade(t *testing.T) {
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

func TestWhatIsNoTokenIsRefused(t *testing.T) {
	for _, text := range []string{
		"", ".", "0", "-1", "+1", " 1", "1 ", "1.", "1.abc", "1.4D0FAE0", "x", "1.4D0FAE0G", "1,2", "1.4D0FAE0B5C8A, 2.4D0FAE0B5C8A",
		"1.0", "0.4D0FAE0B5C8A", "9223372036854775808", "1." + strings.Repeat("a", 65), "1x4D0FAE0B5C8A", "1.4D0FAE0B.5C8A",
	} {
		if got, ok := ParseToken(text); ok || got != (Token{}) {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

// A reset history has replaced all its blocks.
type reset struct{ history }

func (reset) Replaced(int64, string) bool { return true }

func TestTokenWithoutAHashIsNeverReplaced(t *testing.T) {
	for _, tt := range []struct {
		token Token
		h     History
		want  bool
	}{
		{Token{5, "ABABABABABAB"}, reset{}, true},
		{Token{5, "ABABABABABAB"}, history(""), false},
		{Token{5, ""}, reset{}, false},
	} {
		if got := tt.token.Replaced(tt.h); got != tt.want {
			t.Errorf("Replaced of %v in %T = %t, want %t", tt.token, tt.h, got, tt.want)
		}
	}
}
