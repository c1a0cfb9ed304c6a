package redis

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// scriptChannel is what a script is to publish on: nothing in a Cluster, where a shard is in another
// slot than the key.
func (l *lease) scriptChannel() string {
	if l.shard != "" {
		return ""
	}
	return l.channel
}

// tellSettled sends in a Cluster the message that settleScript sends otherwise.
func (l *lease) tellSettled(ctx context.Context, reply string, meta, body []byte, failure error) {
	switch {
	case l.shard == "" || reply == "body" || failure != nil && !isReply(failure):
	case failure != nil:
		l.tell(ctx, "-"+l.key)
	case reply == "older":
		l.tell(ctx, "+"+l.key)
	case len(body) > maxTold:
		l.tell(ctx, renewalHead(l.key, meta)+l.key+string(meta))
	default:
		l.tell(ctx, renewalHead(l.key, meta)+l.key+string(meta)+string(body))
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
	_ = l.publish(ctx, redis.Cmdable.Publish, l.channel, message) // counted
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
