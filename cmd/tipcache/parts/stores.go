// Package parts creates parts that several commands share from a valid configuration: the client of Redis and the
// collection store (stores.go), the logs (logs.go) and the metrics of the process (version.go).
package parts

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream"
	"github.com/tipcache/tipcache/upstream/account"
	"github.com/tipcache/tipcache/upstream/collections"
	"github.com/tipcache/tipcache/upstream/collections/drivers"
)

// OpenRedis returns the client of the shared store, nil if none is configured. It does not
// connect, so a Redis that is unreachable at start is no error.
func OpenRedis(cfg config.Redis) (redis.UniversalClient, error) {
	if cfg.URL == "none" {
		return nil, nil
	}
	o, err := redisOptions(cfg)
	if err != nil {
		return nil, err
	}
	logging.Disable() // the cache counts and logs what the library would print
	return newRedis(o), nil
}

// clusterReload is the interval at which the map of a Cluster is read again. A dead master refuses
// connections, and until then the client does not learn which node has replaced it.
const clusterReload = 2 * time.Second

func newRedis(o *redis.UniversalOptions) redis.UniversalClient {
	var client redis.UniversalClient
	if o.MasterName == "" && (o.IsClusterMode || len(o.Addrs) > 1) {
		c := o.Cluster()
		c.ClusterStateReloadInterval = clusterReload
		client = redis.NewClusterClient(c)
	} else {
		client = redis.NewUniversalClient(o)
	}
	client.AddHook(redacting{upstream.NewRedactor(&url.URL{User: url.UserPassword(o.Username, o.Password)}, o.SentinelPassword)})
	return client
}

// redacting hides credentials in errors, because a server or proxy may repeat them.
type redacting struct{ hide *strings.Replacer }

func (redacting) DialHook(next redis.DialHook) redis.DialHook { return next }

func (r redacting) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		r.redact(cmd)
		return upstream.RedactError(err, r.hide)
	}
}

func (r redacting) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			r.redact(cmd)
		}
		return upstream.RedactError(err, r.hide)
	}
}

func (r redacting) redact(cmd redis.Cmder) {
	if err := cmd.Err(); err != nil {
		cmd.SetErr(upstream.RedactError(err, r.hide))
	}
}

// poolSize is the maximum number of connections to a Redis.
const poolSize = 128

// redisOptions parses redis[s]://user:password@host[,host...]/db, or unix://user:password@/path?db=0. Several hosts are a
// Cluster, or the Sentinels of ?master_name=. One host with ?cluster=true is a Cluster. User and password are for Redis.
// Sentinels get the parameters sentinel_username and sentinel_password.
func redisOptions(cfg config.Redis) (*redis.UniversalOptions, error) {
	if err := config.CheckCredentials(cfg.URL); err != nil {
		return nil, fmt.Errorf("redis.url: %w", err)
	}
	u, err := url.Parse(cfg.URL)
	if err != nil {
		return nil, errors.New("redis.url: not a URL") // the error of url.Parse would show a password
	}
	hosts := strings.Split(u.Host, ",")
	u.Host = hosts[0]
	query := u.Query()
	u.RawQuery = ""
	if query.Has("db") {
		u.RawQuery = url.Values{"db": query["db"]}.Encode()
	}
	single, err := redis.ParseURL(u.String())
	if err != nil {
		return nil, fmt.Errorf("redis.url: not understood: %s", strings.ReplaceAll(err.Error(), u.String(), "it"))
	}
	cluster, _ := strconv.ParseBool(query.Get("cluster"))
	addresses := []string{single.Addr}
	for _, host := range hosts[1:] {
		if _, _, err := net.SplitHostPort(host); err != nil {
			host = net.JoinHostPort(host, "6379")
		}
		addresses = append(addresses, host)
	}
	if single.TLSConfig != nil && (len(addresses) > 1 || query.Has("master_name")) {
		single.TLSConfig.ServerName = "" // each host has a certificate for its own name
	}
	return &redis.UniversalOptions{
		Addrs:         addresses,
		DB:            single.DB,
		Username:      single.Username,
		Password:      single.Password,
		TLSConfig:     single.TLSConfig,
		MasterName:    query.Get("master_name"),
		IsClusterMode: cluster,
		Protocol:      2, // 3 costs a check before every reply

		SentinelUsername: query.Get("sentinel_username"),
		SentinelPassword: query.Get("sentinel_password"),

		// A request continues without Redis rather than wait for it.
		ContextTimeoutEnabled: true,
		MaxRetries:            -1,
		DialerRetries:         1,
		DialTimeout:           cfg.Timeout,
		ReadTimeout:           cfg.Timeout,
		WriteTimeout:          cfg.Timeout,
		PoolTimeout:           cfg.Timeout / 2, // shorter than an operation, so that a full pool and a silent Redis have different errors
		PoolSize:              poolSize,
	}, nil
}

// OpenStore opens the collection store. Responses are reserved in memory; nil means no limit.
func OpenStore(ctx context.Context, cfg config.Config, memory *account.Part, log *slog.Logger, registry prometheus.Registerer) (*collections.Store, error) {
	o := cfg.StoreOptions()
	o.Memory, o.Logger, o.Registerer = memory, log, registry
	return drivers.Open(ctx, cfg.Collections.Store, o)
}
