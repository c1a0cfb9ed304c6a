package redis

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// tellSettled sends in a Cluster the message that settleScript sends otherwise.
func (l *lease) tellSettled(ctx context.Context, a *answer, reply string, failure error) {
	switch {
	case failure != nil && !isReply(failure):
	case failure != nil:
		l.tell(ctx, "-"+l.key)
	case reply == "done":
		l.tell(ctx, renewalOf(l.key, a.meta, a.body))
	default:
		l.tell(ctx, "+"+l.key)
	}
}

// tell sends a message about the lease to all replicas. It may get lost: then they wait for
// the end of the lease. Where a Cluster knows no shards, it goes to all of its nodes.
func (l *lease) tell(ctx context.Context, message string) {
	if l.shard != "" && !l.s.unsharded.Load() {
		err := l.publish(ctx, redis.Cmdable.SPublish, l.shard, message)
		if !refusesShards(err) {
			return
		}
		l.s.unsharded.Store(true)
	}
	_ = l.publish(ctx, redis.Cmdable.Publish, channelOf(l.namespace), message) // counted
}

func (l *lease) publish(ctx context.Context, by func(redis.Cmdable, context.Context, string, any) *redis.IntCmd, channel, message string) error {
	var told *redis.IntCmd
	err := l.s.ask(ctx, &operation{single: true, send: func(ctx context.Context, to redis.Cmdable) redis.Cmder {
		told = by(to, ctx, channel, message)
		return told
	}})
	if err != nil {
		return err
	}
	if err = told.Err(); err != nil {
		l.s.refused(err)
	}
	return err
}

// renewalOf is the message that says what was settled of a key.
func renewalOf(key string, meta, body []byte) string {
	if len(body) > maxTold {
		body = nil
	}
	return fmt.Sprintf("%c%d %d %d %s%s%s", renewalMark, len(key), len(meta), len(body), key, meta, body)
}
