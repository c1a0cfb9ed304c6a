package node

import (
	"fmt"
	"strconv"
)

// beyond is a height that no chain has.
const beyond = int64(1) << 62

// impossible is the Height of an answer that states one that no chain has, or two.
const impossible = -1

// statedHeight returns the height that an answer states, which may repeat it, 0 for none.
func statedHeight(values ...string) (stated int64) {
	for _, value := range values {
		height, err := strconv.ParseInt(value, 10, 64)
		switch {
		case value == "":
		case err != nil || height < 0 || height >= beyond || stated > 0 && stated != height:
			return impossible
		default:
			stated = height
		}
	}
	return stated
}

// checkHeight returns the error for an answer whose height cannot be the one that was asked for, 0 for the node's latest.
func (a *Answer) checkHeight(asked int64) error {
	if a.Height < 0 || asked > 0 && a.Height > 0 && a.Height != asked {
		return badAnswer(fmt.Errorf("height %d in answer, want %d", a.Height, asked))
	}
	return nil
}

// dropHeight forgets the height of an answer of the node's latest if the chain cannot have got there by now. limit is the
// highest that it can have reached, 0 for any.
func (a *Answer) dropHeight(limit int64) {
	if limit > 0 && a.Height > limit {
		a.Height = 0
	}
}
