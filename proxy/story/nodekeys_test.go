package story

import (
	"encoding/base64"
	"testing"
)

func TestPageKeysAreReadAsBytesOrBase64(t *testing.T) {
	place := "\x00\x00\x00\x00\x00\x00\xfb\xff"
	for name, tt := range map[string]struct {
		format    pageKeyFormat
		key, want string
		ok        bool
	}{
		"bytes":                     {oneNumber, place, place, true},
		"base64":                    {oneNumber, base64.StdEncoding.EncodeToString([]byte(place)), place, true},
		"base64 without padding":    {oneNumber, base64.RawStdEncoding.EncodeToString([]byte(place)), place, true},
		"base64 of URLs":            {oneNumber, base64.URLEncoding.EncodeToString([]byte(place)), place, true},
		"base64 with a blank":       {oneNumber, "AAAAAAAA  8=", "\x00\x00\x00\x00\x00\x00\xfb\xef", true},
		"base64 of a wrong length":  {oneNumber, base64.StdEncoding.EncodeToString([]byte("another")), "", false},
		"neither":                   {oneNumber, "no key!", "", false},
		"two numbers":               {twoNumbers, place + place, place + place, true},
		"one number instead of two": {twoNumbers, place, "", false},
		"digits":                    {decimalDigits, "1014", "1014", true},
		"digits in base64":          {decimalDigits, base64.StdEncoding.EncodeToString([]byte("1014")), "1014", true},
		"20 digits":                 {decimalDigits, "12345678901234567890", "12345678901234567890", true},
		"21 digits":                 {decimalDigits, "123456789012345678901", "", false},
		"a letter among the digits": {decimalDigits, "10a4", "", false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := tt.format.read(tt.key)
			if ok != tt.ok || ok && got != tt.want {
				t.Errorf("read(%q) = %q, %t; want %q, %t", tt.key, got, ok, tt.want, tt.ok)
			}
		})
	}
}
