package story

import (
	"encoding/base64"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy/blocks"
)

const (
	someChain = "story-1"
	somePath  = "/staking/validators"
)

func TestWalkKeyRoundTrips(t *testing.T) {
	for _, k := range []walkKey{
		{blocks.Snapshot{Height: 1}, "a"},
		{blocks.Snapshot{Height: 1 << 40, Epoch: 3}, "\x14" + strings.Repeat("\xff", 20)},
		{blocks.Snapshot{Height: 228, Epoch: 1 << 50}, "tip-" + strings.Repeat("\x00", 42)},
	} {
		got, err := parseWalkKey(k.text(someChain, somePath), someChain, somePath)
		if err != nil || got != k {
			t.Errorf("parseWalkKey = %+v, %v; want %+v", got, err, k)
		}
	}
}

func TestWalkKeyIsValidForItsListOnly(t *testing.T) {
	text := walkKey{blocks.Snapshot{Height: 228, Epoch: 1}, "\x14validator"}.text(someChain, somePath)
	if _, err := parseWalkKey(text, "story-2", somePath); err == nil {
		t.Error("parseWalkKey of another chain's key: error = nil, want one")
	}
	if _, err := parseWalkKey(text, someChain, somePath+"/0x00/delegations"); err == nil {
		t.Error("parseWalkKey of another list's key: error = nil, want one")
	}
	for i := len(walkKeyPrefix); i < len(text); i++ {
		altered := text[:i] + string(text[i]^1) + text[i+1:]
		if k, err := parseWalkKey(altered, someChain, somePath); err == nil {
			t.Errorf("parseWalkKey(%s), altered from %s, = %+v, want an error", altered, text, k)
		}
	}
}

// FuzzWalkKey checks that a key that can be parsed has one text.
func FuzzWalkKey(f *testing.F) {
	known := walkKey{blocks.Snapshot{Height: 228, Epoch: 1}, "\x14validator"}.text(someChain, somePath)
	f.Add(known)
	f.Add(known[:9] + "\n" + known[9:])
	f.Add(walkKeyPrefix)
	f.Add(walkKeyPrefix + base64.RawURLEncoding.EncodeToString(make([]byte, 12)))
	f.Fuzz(func(t *testing.T, text string) {
		k, err := parseWalkKey(text, someChain, somePath)
		if err == nil && k.text(someChain, somePath) != text {
			t.Errorf("text of parseWalkKey(%s) = %s, want the same", text, k.text(someChain, somePath))
		}
		if payload, valid := strings.CutPrefix(text, "seal:"); valid { // gets a valid checksum
			b := append([]byte(payload), walkChecksum(someChain, somePath, []byte(payload))...)
			if k, err := parseWalkKey(walkKeyPrefix+base64.RawURLEncoding.EncodeToString(b), someChain, somePath); err == nil && (k.Height <= 0 || k.raw == "") {
				t.Errorf("key of payload %q = %+v, want an error, or a height and a page key", payload, k)
			}
		}
	})
}
