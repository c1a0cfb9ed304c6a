package evm

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Quantity reads a number as JSON-RPC writes it: 0x and hex digits.
func Quantity(s string) (int64, error) {
	digits, ok := strings.CutPrefix(s, "0x")
	n, err := strconv.ParseUint(digits, 16, 64)
	if !ok || err != nil || n > math.MaxInt64 {
		return 0, fmt.Errorf("%.30q is not a quantity", s)
	}
	return int64(n), nil
}

// Hex writes a number as JSON-RPC reads it.
func Hex(n int64) string { return "0x" + strconv.FormatInt(n, 16) }
