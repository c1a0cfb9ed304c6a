package devnet

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"time"
)

// rememberedHistory is the parameter historical_entries.
const rememberedHistory = 10_000

// historicalInfo answers with the header and the bonded validators at an
// earlier height. Unlike the headers of CometBFT its time is reckoned from the
// height, since it is part of the state.
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
	past := q.chain.at(height)
	q.textf(`{"hist":{"header":{"version":{},"chain_id":%q,"height":"%d","time":%q,"last_block_id":{"part_set_header":{}},"next_validators_hash":%q,"app_hash":%q,"proposer_address":%q},`,
		q.chain.id, height, stamp(genesisTime.Add(time.Duration(height)*2*time.Second)),
		base64Text(past.hash("validators")), base64Text(past.hash("app")), base64Text(past.proposer))
	q.text(`"valset":`)
	q.state = past
	list(q, past.bonded(), "null", q.appendValidator)
	q.text("}}")
	return nil
}

// hash is some digest that stands for a part of the chain at this height.
func (s state) hash(what string) []byte {
	d := digest(s.seed, s.chain.id+what, int(s.height+s.forks<<40))
	return d[:]
}

func base64Text(b []byte) string { return base64.StdEncoding.EncodeToString(b) }
