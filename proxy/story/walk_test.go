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
			t.Errorf("%+v became %+v, %v", k, got, err)
		}
	}
}

func TestWalkKeyIsValidForItsListOnly(t *testing.T) {
	text := walkKey{blocks.Snapshot{Height: 228, Epoch: 1}, "\x14validator"}.text(someChain, somePath)
	if _, err := parseWalkKey(text, "story-2", somePath); err == nil {
		t.Error("key of another chain accepted")
	}
	if _, err := parseWalkKey(text, someChain, somePath+"/0x00/delegations"); err == nil {
		t.Error("key of another list accepted")
	}
	for i := len(walkKeyPrefix); i < len(text); i++ {
		altered := text[:i] + string(text[i]^1) + text[i+1:]
		if k, err := parseWalkKey(altered, someChain, somePath); err == nil {
			t.Errorf("%s, altered from %s, is read as %+v", altered, text, k)
		}
	}
}

// FuzzWalkKey: a key is read or refused, and what is read is written alike.
func FuzzWalkKey(f *testing.F) {
	known := walkKey{blocks.Snapshot{Height: 228, Epoch: 1}, "\x14validator"}.text(someChain, somePath)
	f.Add(known)
	f.Add(known[:9] + "\n" + known[9:])
	f.Add(walkKeyPrefix)
	f.Add(walkKeyPrefix + base64.RawURLEncoding.EncodeToString(make([]byte, 12)))
	f.Fuzz(func(t *testing.T, text string) {
		k, err := parseWalkKey(text, someChain, somePath)
		if err == nil && k.text(someChain, somePath) != text {
			t.Errorf("%s is read as %+v", text, k)
		}
		if payload, sealed := strings.CutPrefix(text, "seal:"); sealed { // past the checksum
			b := append([]byte(payload), walkChecksum(someChain, somePath, []byte(payload))...)
			if k, err := parseWalkKey(walkKeyPrefix+base64.RawURLEncoding.EncodeToString(b), someChain, somePath); err == nil && (k.Height <= 0 || k.raw == "") {
				t.Errorf("%q is read as %+v", payload, k)
			}
		}
	})
}
