package devnet

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// rememberedHistory is the parameter historical_entries.
const rememberedHistory = 10_000

// historicalInfo answers with the header and the bonded validators at an
// earlier height.
func historicalInfo(q *query) error {
	height, err := strconv.ParseInt(q.http.PathValue("height"), 10, 64)
	switch {
	case err != nil:
		return err
	case height < 0:
		return errors.New("rpc error: code = InvalidArgument desc = height cannot be negative")
	case height == 0 || height > q.height || height <= q.height-rememberedHistory:
		return fmt.Errorf("rpc error: code = NotFound desc = historical info for height %d not found", height)
	}
	q.text(strings.NewReplacer("{height}", strconv.FormatInt(height, 10), "{chain}", q.chain.id).Replace(string(recorded().History)))
	return nil
}

// hash is some digest that stands for a part of the chain at this height.
func (s state) hash(what string) []byte {
	d := digest(s.seed, s.chain.id+what, int(s.height+s.forks<<40))
	return d[:]
}

func base64Text(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
