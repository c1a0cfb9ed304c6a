package rig

import (
	"context"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"
)

// A Redis is a server in a process of its own. It keeps nothing on disk.
type Redis struct {
	*Process
	*redis.Client
	Addr string
}

// Redis starts a server. Arguments are those of redis-server.
func (r *Rig) Redis(ctx context.Context, args ...string) *Redis {
	return r.startRedis(ctx, append([]string{"redis-server", "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--repl-diskless-sync-delay", "0"}, args...)...)
}

func (r *Rig) startRedis(ctx context.Context, argv ...string) *Redis {
	s := &Redis{Addr: FreeAddr()}
	s.Process = r.Start(ctx, "redis-"+Port(s.Addr), nil, append(argv, "--port", Port(s.Addr), "--dir", r.Dir)...)
	s.Client = redis.NewClient(&redis.Options{Addr: s.Addr, MaxRetries: -1})
	r.OnStop(func() { _ = s.Client.Close() })
	s.Ready(ctx)
	return s
}

// URL is what a replica is told.
func (s *Redis) URL() string { return "redis://" + s.Addr }

// Ready waits until the server answers.
func (s *Redis) Ready(ctx context.Context) {
	s.Process.Ready(ctx, func(ctx context.Context) error { return s.Ping(ctx).Err() })
}

// Info has the fields of INFO that are numbers. That of a database, as db0, is
// how many keys it has, and that of a command, as cmdstat_get, how often it was called.
func (s *Redis) Info(ctx context.Context) Samples {
	values := Samples{}
	for line := range strings.Lines(Must(s.Client.Info(ctx, "all").Result())) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value, _, _ = strings.Cut(strings.TrimPrefix(strings.TrimPrefix(value, "keys="), "calls="), ",")
		if v, err := strconv.ParseFloat(value, 64); err == nil {
			values[name] = v
		}
	}
	return values
}
