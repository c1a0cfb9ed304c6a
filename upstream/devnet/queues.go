package devnet

import "encoding/binary"

// A withdrawal waits to be paid out on the execution chain.
type withdrawal struct {
	id     uint64
	kind   int
	tokens uint64
	who    address    // who gets it
	from   *validator // nil for the community's share
}

// The kinds of withdrawals; that of a stake is left out of answers.
const (
	ofStake = iota
	ofRewards
	ofCommunity
)

// communityAddress gets the community's share.
var communityAddress = addressOf(mustHex("0xcccccc0000000000000000000000000000000002"))

// key is the place in the queue.
func (w withdrawal) key() string { return string(binary.BigEndian.AppendUint64(nil, w.id)) }

// queueLengths are how many wait, for four blocks each, over and over.
var queueLengths = [...]int{0, 0, 0, 1, 0, 2, 0, 142}

// queued are the withdrawals of a kind that wait at this height.
func (s state) queued(kind int, tokens uint64) []withdrawal {
	span := s.height / 4
	if s.height < singularity {
		return nil
	}
	queue := make([]withdrawal, queueLengths[span%int64(len(queueLengths))])
	for i := range queue {
		v := s.validators[i%len(s.validators)]
		queue[i] = withdrawal{uint64(span)*200 + uint64(i), kind, tokens + noise(s.seed, "withdrawal", i, 1_000_000), v.Operator, v}
	}
	return queue
}

// withdrawalQueue answers with the stakes that are paid out. What waits alone
// is the community's share.
func withdrawalQueue(q *query) error {
	queue := q.queued(ofStake, step)
	if len(queue) == 1 {
		queue[0].kind, queue[0].who, queue[0].from = ofCommunity, communityAddress, nil
	}
	return listPage(q, "withdrawals", "", queue, withdrawal.key, nil, q.withdrawal)
}

// rewardWithdrawalQueue answers with the rewards that are paid out.
func rewardWithdrawalQueue(q *query) error {
	return listPage(q, "withdrawals", "", q.queued(ofRewards, 8*billion), withdrawal.key, nil, q.withdrawal)
}

func (q *query) withdrawal(w withdrawal) {
	q.textf(`{"creation_height":"%d","execution_address":%q,"amount":"%d"`, q.height-q.height%4, w.who.checksum(), w.tokens)
	if w.kind != ofStake {
		q.textf(`,"withdrawal_type":%d`, w.kind)
	}
	if w.from != nil {
		q.textf(`,"validator_address":"%s"`, w.from.Operator)
	}
	q.text("}")
}
