package comet

import (
	"encoding/base64"
	"testing"
)

func FuzzPayloadNumber(f *testing.F) {
	for _, tx := range []string{"", "CgA=", realTransaction} {
		raw, _ := base64.StdEncoding.DecodeString(tx)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, tx []byte) {
		if n, err := payloadNumber(tx); n < 0 || err != nil && n != 0 {
			t.Errorf("payloadNumber = %d, %v; want a number of 0 or more, 0 with an error", n, err)
		}
	})
}
