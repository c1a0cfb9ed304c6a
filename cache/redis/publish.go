package redis

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"
)

// publishResult publishes in a Cluster what writeScript publishes elsewhere.
func (l *lease) publishResult(ctx context.Context, a *entryWrite, reply string, failure error) {
	switch {
	case failure != nil && !isReply(failure):
	case failure != nil:
		l.publish(ctx, "-"+l.key)
	case reply == "done":
		l.publish(ctx, renewalOf(l.key, a.meta, a.body))
	default:
		l.publish(ctx, "+"+l.key)
	}
}

// publish sends a message about the lease to all replicas. If it is lost, they wait until the lease expires; if it has
// waiterMark, until the holder's batch is due. Without sharded channels the message goes to all nodes of the Cluster.
func (l *lease) publish(ctx context.Context, message string) {
	if l.shard != "" && !l.s.noShards.Load() {
		err := l.send(ctx, redis.Cmdable.SPublish, l.shard, message)
		if !refusesShards(err) {
			return
		}
		l.s.noShards.Store(true)
	}
	_ = l.send(ctx, redis.Cmdable.Publish, channelOf(l.namespace), message) // counted
}

func (l *lease) send(ctx context.Context, by func(redis.Cmdable, context.Context, string, any) *redis.IntCmd, channel, message string) error {
	var published *redis.IntCmd
	err := l.s.run(ctx, &command{single: true, send: func(ctx context.Context, to redis.Cmdable) redis.Cmder {
		published = by(to, ctx, channel, message)
		return published
	}})
	if err != nil {
		return err
	}
	if err = published.Err(); err != nil {
		l.s.reportReply(err)
	}
	return err
}

// renewalOf returns the message about a stored entry.
func renewalOf(key string, meta, body []byte) string {
	if len(body) > maxPublished {
		body = nil
	}
	return fmt.Sprintf("%c%d %d %d %s%s%s", renewalMark, len(key), len(meta), len(body), key, meta, body)
}
