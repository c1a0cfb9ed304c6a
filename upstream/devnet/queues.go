package devnet

import (
	"encoding/binary"
	"fmt"
)

// communityAddress gets the community's share.
const communityAddress = "0xccCCcC0000000000000000000000000000000002"

// queueLengths are how many withdrawals wait, for four blocks each, over and over.
var queueLengths = [...]int{0, 0, 0, 1, 0, 2, 0, 142}

// withdrawals answers with what waits to be paid out on the execution chain. The
// kind is the JSON member that those of rewards have. Where one stake would wait
// alone, the community's share does instead.
func withdrawals(least uint64, kind string) func(*query) error {
	return func(q *query) error {
		span := q.height / 4
		places := make([]uint64, queueLengths[span%int64(len(queueLengths))])
		if q.height < singularity {
			places = nil
		}
		for i := range places {
			places[i] = uint64(i)
		}
		key := func(i uint64) string { return string(binary.BigEndian.AppendUint64(nil, uint64(span)*200+i)) }
		return listPage(q, "withdrawals", "", places, key, nil, func(i uint64) {
			v := q.validators[int(i)%len(q.validators)]
			who, more := v.Operator.checksum(), fmt.Sprintf(`%s,"validator_address":"%s"`, kind, v.Operator)
			if kind == "" && len(places) == 1 {
				who, more = communityAddress, `,"withdrawal_type":2`
			}
			q.textf(`{"creation_height":"%d","execution_address":%q,"amount":"%d"%s}`, span*4, who, least+noise(q.seed, "withdrawal", int(i), 1_000_000), more)
		})
	}
}
