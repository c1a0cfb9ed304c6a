package config

import (
	"fmt"
	"strconv"
	"strings"
)

// Bytes is an amount of memory, written as a number or with KiB, MiB or GiB.
type Bytes int64

// Auto is an amount that depends on how much there is, written as auto.
const Auto Bytes = -1

var units = []struct {
	name string
	size int64
}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}, {"B", 1}}

// UnmarshalText reads 1024, 64KiB, 256MiB or 2GiB.
func (b *Bytes) UnmarshalText(text []byte) error {
	if string(text) == "auto" {
		*b = Auto
		return nil
	}
	s, size := strings.TrimSpace(string(text)), int64(1)
	for _, u := range units {
		if rest, ok := strings.CutSuffix(s, u.name); ok {
			s, size = strings.TrimSpace(rest), u.size
			break
		}
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 0 || n > (1<<62)/size {
		return fmt.Errorf("%q is not a size such as 64KiB, 256MiB or 2GiB", text)
	}
	*b = Bytes(n * size)
	return nil
}

// String writes b with the largest unit that divides it.
func (b Bytes) String() string {
	if b == Auto {
		return "auto"
	}
	for _, u := range units {
		if b != 0 && int64(b)%u.size == 0 {
			return strconv.FormatInt(int64(b)/u.size, 10) + u.name
		}
	}
	return "0B"
}
