package rig

import (
	"context"
	"regexp"
	"strconv"

	"github.com/redis/go-redis/v9"
)

// A Redis is a server in a process of its own. It keeps nothing on disk.
type Redis struct {
	*Process
	*redis.Client
	Addr string
}

// Redis starts a server. Arguments are those of redis-server.
func (r *Rig) Redis(ctx context.Context, args ...string) (*Redis, error) {
	return r.startRedis(ctx, "redis", append([]string{"--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"}, args...)...)
}

func (r *Rig) startRedis(ctx context.Context, name string, args ...string) (s *Redis, err error) {
	s = &Redis{Addr: FreeAddr()}
	s.Process, err = r.StartTool(ctx, name+"-"+Port(s.Addr), RedisTool, append(args, "--port", Port(s.Addr), "--dir", r.Dir)...)
	if err != nil {
		return nil, err
	}
	s.Client = redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	r.OnStop(func() { _ = s.Client.Close() })
	return s, s.Ready(ctx)
}

// URL is what a replica is told.
func (s *Redis) URL() string { return "redis://" + s.Addr }

// Ready waits until the server answers.
func (s *Redis) Ready(ctx context.Context) error {
	return s.Process.Ready(ctx, func(ctx context.Context) error { return s.Ping(ctx).Err() })
}

// The fields of INFO that are read.
const (
	RedisMemory   = "used_memory" // bytes
	RedisCommands = "total_commands_processed"
	RedisKeys     = "db0:keys"
	RedisIn       = "total_net_input_bytes"
	RedisOut      = "total_net_output_bytes"
)

// Info reads fields of INFO that are numbers. A field that is not there is 0.
func (s *Redis) Info(ctx context.Context, fields ...string) (Samples, error) {
	text, err := s.Client.Info(ctx).Result()
	if err != nil {
		return nil, err
	}
	values := Samples{}
	for _, f := range fields {
		if m := regexp.MustCompile(`(?m)^` + f + `[:=](\d+)`).FindStringSubmatch(text); m != nil {
			values[f], _ = strconv.ParseFloat(m[1], 64)
		}
	}
	return values, nil
}
