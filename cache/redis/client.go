package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/tipcache/tipcache/cache"
	"github.com/tipcache/tipcache/upstream"
)

// Shared is a Store and the connections to its Redis. It is an interface because each package that names a type with a field of
// go-redis' clients would otherwise compile their 400 methods once more.
type Shared interface {
	cache.Shared

	Agreement(ctx context.Context, chainID string, epoch int64) (upstream.Agreement, error)
	NextEpoch(ctx context.Context, chainID string, from, to int64) (int64, error)
	AddAnchor(ctx context.Context, chainID string, epoch, height int64, hash string) error

	Spend(ctx context.Context, debits []upstream.Debit) error

	Probe(ctx context.Context, namespace string)
	Outages() upstream.Outages

	// Ping sends a request even while the breaker is open.
	Ping(ctx context.Context) error

	// Check reports version and memory of a Redis that this store can use. It changes no key, and replicas get no message.
	Check(ctx context.Context) (string, error)

	// Close closes the connections. The caches must be closed before.
	Close() error
}

// Open returns a store in the Redis at o.URL. It does not connect, so a Redis that is unreachable at start is no error.
func Open(o Options) (Shared, error) {
	options, err := clientOptions(o.URL, o.WithDefaults().Timeout)
	if err != nil {
		return nil, err
	}
	logging.Disable() // the store counts and logs what the library would print
	rdb := newClient(options)
	s, err := New(rdb, o)
	if err != nil {
		return nil, errors.Join(err, rdb.Close())
	}
	return s, nil
}

// Ping implements [Shared].
func (s *Store) Ping(ctx context.Context) error { return s.rdb.Ping(ctx).Err() }

// Close implements [Shared].
func (s *Store) Close() error { return s.rdb.Close() }

// Check implements [Shared].
func (s *Store) Check(ctx context.Context) (string, error) {
	began := time.Now()
	if err := s.Ping(ctx); err != nil {
		return "", err
	}
	took := time.Since(began)
	about, _ := s.rdb.Info(ctx, "server", "memory", "replication").Result() // an ACL may forbid it
	switch {
	case infoField(about, "role") == "slave":
		return "", errors.New("it is a replica, which refuses writes: redis.url must name the master")
	case infoField(about, "redis_mode") == "sentinel":
		return "", errors.New("it is a Sentinel: redis.url must have ?master_name=")
	}
	if err := s.checkPermissions(ctx); err != nil {
		return "", err
	}
	text := fmt.Sprintf("connected in %v", took.Round(10*time.Microsecond))
	if version := infoField(about, "redis_version"); version != "" {
		text = fmt.Sprintf("Redis %s, %s used, ", version, infoField(about, "used_memory_human")) + text
	}
	return text, nil
}

// checkKey is a key that does not exist. Its hash slot is more than half of all slots away from that of probeKey, so that the nodes of a
// Cluster do not have both.
const checkKey = "tipcache:1:check:{}"

// checkPermissions returns an error if Redis refuses a kind of command. It changes no key, and replicas get no message.
func (s *Store) checkPermissions(ctx context.Context) error {
	channel := channelOf("") // to which no replica listens, because all namespaces have a name
	sub := s.rdb.Subscribe(ctx)
	defer sub.Close()
	script := func(text string, keys ...string) func() error {
		return func() error { return s.rdb.Eval(ctx, text, keys, channel).Err() }
	}
	for _, try := range []struct {
		refused string
		run     func() error
	}{
		{"does not let tipcache read keys", func() error { return s.rdb.HMGet(ctx, entryKey("", probeKey), "m").Err() }},
		{"refuses scripts", script("return redis.call('TIME')")},
		{"refuses writes", script("return redis.call('SET', KEYS[1], '', 'XX')", checkKey)},
		{"refuses messages", script("return redis.call('PUBLISH', ARGV[1], '')")},
		{"refuses subscriptions", func() error {
			_ = sub.Subscribe(ctx, channel) // ReceiveTimeout returns the error
			_, err := sub.ReceiveTimeout(ctx, s.o.Timeout)
			return err
		}},
	} {
		switch err := try.run(); {
		case err == nil, errors.Is(err, redis.Nil):
		case redis.HasErrorPrefix(err, "MOVED"):
			return fmt.Errorf("it is a node of a Cluster: redis.url must have ?cluster=true: %w", err)
		case isReply(err):
			return fmt.Errorf("it %s: %w", try.refused, err)
		default:
			return err
		}
	}
	return nil
}

// infoField returns a field of the response to INFO. The client library's InfoMap panics if the response has no section.
func infoField(info, field string) string {
	_, rest, _ := strings.Cut(info, field+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// clusterReload is the interval at which the map of a Cluster is read again. A dead master refuses
// connections, and until then the client does not learn which node has replaced it.
const clusterReload = 2 * time.Second

func newClient(o *redis.UniversalOptions) redis.UniversalClient {
	var client redis.UniversalClient
	if o.MasterName == "" && (o.IsClusterMode || len(o.Addrs) > 1) {
		c := o.Cluster()
		c.ClusterStateReloadInterval = clusterReload
		client = redis.NewClusterClient(c)
	} else {
		client = redis.NewUniversalClient(o)
	}
	client.AddHook(rewording{upstream.NewRedactor(&url.URL{User: url.UserPassword(o.Username, o.Password)}, o.SentinelPassword), o.MasterName})
	return client
}

// rewording hides credentials in errors, because a server or proxy may repeat them. The replies of Sentinels become other errors,
// because the client library would pass them off as replies of Redis.
type rewording struct {
	hide   *strings.Replacer
	master string
}

func (r rewording) DialHook(next redis.DialHook) redis.DialHook {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := next(ctx, network, addr)
		if isReply(err) {
			_, replies, _ := strings.Cut(err.Error(), "unreachable: ")
			replies = strings.NewReplacer(redis.Nil.Error(), "unknown name", "\n", "; ").Replace(replies)
			err = fmt.Errorf("no Sentinel named the master %q: %s", r.master, replies)
		}
		return c, err
	}
}

func (r rewording) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		r.redact(cmd)
		return upstream.RedactError(err, r.hide)
	}
}

func (r rewording) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		err := next(ctx, cmds)
		for _, cmd := range cmds {
			r.redact(cmd)
		}
		return upstream.RedactError(err, r.hide)
	}
}

func (r rewording) redact(cmd redis.Cmder) {
	if err := cmd.Err(); err != nil {
		cmd.SetErr(upstream.RedactError(err, r.hide))
	}
}

// poolSize is the maximum number of connections to a Redis.
const poolSize = 128

// clientOptions parses redis[s]://user:password@host[,host...]/db, or unix://user:password@/path?db=0. Several hosts are a
// Cluster, or the Sentinels of ?master_name=. One host with ?cluster=true is a Cluster. User and password are for Redis.
// Sentinels get the parameters sentinel_username and sentinel_password.
func clientOptions(text string, timeout time.Duration) (*redis.UniversalOptions, error) {
	if err := upstream.CheckCredentials(text); err != nil {
		return nil, fmt.Errorf("redis.url: %w", err)
	}
	u, err := url.Parse(text)
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
		DialTimeout:           timeout,
		ReadTimeout:           timeout,
		WriteTimeout:          timeout,
		PoolTimeout:           timeout / 2, // shorter than an operation, so that a full pool and a silent Redis have different errors
		PoolSize:              poolSize,
	}, nil
}
