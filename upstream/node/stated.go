package node

import (
	"fmt"
	"strconv"

	"github.com/tipcache/tipcache/upstream/heights"
)

// invalidHeight is the Height of an answer that states an invalid height or two different ones.
const invalidHeight = -1

// statedHeight returns the height in the values of a response's height headers, which may repeat it, or 0 if all are empty.
func statedHeight(values ...string) (stated int64) {
	for _, value := range values {
		height, err := strconv.ParseInt(value, 10, 64)
		switch {
		case value == "":
		case err != nil || height < 0 || height >= heights.ImpossibleHeight || stated > 0 && stated != height:
			return invalidHeight
		default:
			stated = height
		}
	}
	return stated
}

// checkHeight returns an error if the answer's height differs from the requested one. asked is 0 for the node's latest.
func (a *Answer) checkHeight(asked int64) error {
	if a.Height < 0 || asked > 0 && a.Height > 0 && a.Height != asked {
		return badAnswer(fmt.Errorf("answer has height %d, want %d", a.Height, asked))
	}
	return nil
}
