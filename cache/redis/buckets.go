package redis

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/upstream"
)

// spendScript charges a bucket, which is stored as the time at which it is full, in microseconds. It returns the microseconds
// until it is full. If it refuses the requests, it returns these without them, less than 0. A value that is no time within reach
// is foreign, or from a clock that was ahead: it counts as a full bucket. A key outlives its bucket by a second, because a debit
// may be older.
//
// KEYS: bucket. ARGV: cost, age and most in microseconds, 1 to ask.
const spendScript = `
local time, full = redis.call('TIME'), redis.pcall('GET', KEYS[1])
local now, most = time[1] * 1000000 + time[2], tonumber(ARGV[3])
full = type(full) == 'string' and tonumber(full) or 0
if not (full <= now + most + 1000000) then full = 0 end
full = math.max(full, now - ARGV[2])
local after = full + ARGV[1]
if ARGV[4] == '1' and after > now + most then return -math.max(1, full - now) end
full = math.min(after, now + most)
redis.call('SET', KEYS[1], string.format('%.0f', full), 'PX', string.format('%.0f', math.max(0, full - now) / 1000 + 1000))
return math.max(0, full - now)
`

// Spend charges buckets in one round trip, and sets the results. It returns an error if Redis carried out no debit. The breaker of
// the store does not count it: package limits has one of its own.
func (s *Store) Spend(ctx context.Context, debits []upstream.Debit) (err error) {
	left := make([]*upstream.Debit, len(debits))
	for i := range debits {
		left[i] = &debits[i]
	}
	done := len(debits) == 0
	for _, eval := range []func(context.Context, redis.Scripter, []string, ...any) *redis.Cmd{s.spend.EvalSha, s.spend.Eval} {
		replies := make([]*redis.Cmd, len(left))
		_, _ = s.rdb.Pipelined(ctx, func(p redis.Pipeliner) error { // each reply has the error
			for i, d := range left {
				replies[i] = eval(ctx, p, []string{d.Key}, d.Cost.Microseconds(), d.Age.Microseconds(), d.Most.Microseconds(), d.Asks)
			}
			return nil
		})
		var again []*upstream.Debit
		for i, reply := range replies {
			microseconds, failure := reply.Int64()
			switch {
			case redis.HasErrorPrefix(failure, "NOSCRIPT"):
				again = append(again, left[i])
				continue
			case failure != nil:
				err = failure
				continue
			}
			done = true
			left[i].Done, left[i].Refused = true, microseconds < 0
			left[i].UntilFull = time.Duration(max(microseconds, -microseconds)) * time.Microsecond
		}
		if left = again; len(left) == 0 {
			break
		}
	}
	if done {
		return nil
	}
	return err
}
