package socket

import (
	"bytes"
	"testing"
)

func TestFrameHeaderHasShortestForm(t *testing.T) {
	for size, want := range map[int][]byte{
		0: {0x81, 0}, 125: {0x81, 125}, 126: {0x81, 126, 0, 126}, 1<<16 - 1: {0x81, 126, 0xff, 0xff}, 1 << 16: {0x81, 127, 0, 0, 0, 0, 0, 1, 0, 0},
	} {
		if got := appendHeader(nil, size); !bytes.Equal(got, want) {
			t.Errorf("header of %d bytes = %x, want %x", size, got, want)
		}
	}
}
