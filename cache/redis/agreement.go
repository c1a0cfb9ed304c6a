package redis

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/tipcache/tipcache/upstream"
)

const (
	epochTTL     = 30 * 24 * time.Hour // longer than any entry lives
	maxClockSkew = 24 * time.Hour

	// An anchor is the hash of a block of the current epoch. The newest one is confirmed at most once per
	// confirmInterval, because all replicas see a block at the same time.
	confirmInterval = 200 * time.Millisecond
)

// Agreement stores epoch as the epoch of a chain if it is the highest so far, and returns the highest that any replica has
// stored. An epoch is a Unix time in seconds. Stored epochs that are more than maxClockSkew in the future are ignored.
func (s *Store) Agreement(ctx context.Context, chainID string, epoch int64) (upstream.Agreement, error) {
	l, err := s.update(ctx, chainID, func(l *agreement) bool {
		behind := l.epoch < epoch
		if behind {
			l.begin(epoch)
		}
		return behind
	})
	if err != nil {
		return upstream.Agreement{}, err
	}
	return upstream.Agreement{Epoch: l.epoch, Anchors: l.byHeight(), SinceConfirmed: l.sinceConfirmed()}, nil
}

// NextEpoch moves the chain from one epoch to another, unless another replica was faster. It returns the epoch in force.
func (s *Store) NextEpoch(ctx context.Context, chainID string, from, to int64) (int64, error) {
	l, err := s.update(ctx, chainID, func(l *agreement) bool {
		due := l.epoch <= from
		if due {
			l.begin(to)
		}
		return due
	})
	return l.epoch, err
}

// AddAnchor stores or confirms the hash of a block of an epoch.
func (s *Store) AddAnchor(ctx context.Context, chainID string, epoch, height int64, hash string) error {
	_, err := s.update(ctx, chainID, func(l *agreement) bool { return l.epoch == epoch && l.anchor(height, hash) })
	return err
}

// maxTries limits the attempts of update while other replicas change the agreement.
const maxTries = 5

var errContended = errors.New("redis: other replicas kept changing the epoch")

// update reads the agreement of a chain and stores it as modified by change, if change returns true. It starts over if
// another replica has stored one in between.
func (s *Store) update(ctx context.Context, chainID string, change func(*agreement) bool) (l agreement, err error) {
	at, stored := s.epochKey(chainID), false
	err = s.do(ctx, func(ctx context.Context) error {
		for try := 0; try < maxTries && !stored; try++ {
			reply, err := readAgreement.Run(ctx, s.rdb, []string{at}, maxAgreement).Slice()
			if err != nil {
				return err
			}
			l, err = s.decodeAgreement(at, reply)
			if err != nil {
				s.reportCorrupt(at, err)
			}
			if stored = !change(&l) && err == nil; stored {
				return nil
			}
			args := append([]any{maxAgreement, l.version, epochTTL.Milliseconds()}, s.encodeAgreement(at, &l)...)
			if stored, err = writeAgreement.Run(ctx, s.rdb, []string{at}, args...).Bool(); err != nil {
				return err
			}
		}
		return nil
	})
	if err == nil && !stored {
		err = errContended
	}
	return l, err
}

// epochKey returns the Redis key of a chain's agreement. Each seal key has its own: replicas with different keys, as
// during an update, could not read each other's agreements and would overwrite them.
func (s *Store) epochKey(chainID string) string {
	return "tipcache:1:" + s.codec.named("epoch") + ":{" + url.QueryEscape(chainID) + "}"
}

const (
	maxAnchors   = 16
	maxHash      = 128      // bytes
	maxAgreement = 16 << 10 // bytes of all fields
)

// An agreement is an [upstream.Agreement] as stored, in a hash: e is the epoch, a the anchors as "height:hash
// height:hash" in ascending order, t the time in milliseconds at which the last of them was confirmed, and s the
// signature.
type agreement struct {
	version   string // as returned by readAgreement
	epoch     int64
	anchors   []anchor
	confirmed int64 // 0: never
	now       int64 // by the clock of Redis, which all replicas share
}

type anchor struct {
	height int64
	hash   string
}

// begin starts an epoch without anchors.
func (l *agreement) begin(epoch int64) { l.epoch, l.anchors, l.confirmed = epoch, nil, 0 }

// anchor adds an anchor above the others, or confirms the highest. It reports whether the agreement has changed.
func (l *agreement) anchor(height int64, hash string) bool {
	highest := int64(0)
	if n := len(l.anchors); n > 0 {
		highest = l.anchors[n-1].height
	}
	if height < highest || height == highest && l.sinceConfirmed() < confirmInterval {
		return false
	}
	if height > highest {
		l.anchors = append(l.anchors, anchor{height, hash})
		l.anchors = l.anchors[max(0, len(l.anchors)-maxAnchors):]
	}
	l.confirmed = l.now
	return true
}

func (l *agreement) byHeight() map[int64]string {
	anchors := map[int64]string{}
	for _, a := range l.anchors {
		anchors[a.height] = a.hash
	}
	return anchors
}

// sinceConfirmed returns epochTTL for a time in the future, which comes from a wrong clock, and 0 if no anchor was ever
// confirmed. Callers do not use it then, because there are no anchors.
func (l *agreement) sinceConfirmed() time.Duration {
	switch since := l.now - l.confirmed; {
	case l.confirmed == 0:
		return 0
	case since < 0:
		return epochTTL
	default:
		return time.Duration(since) * time.Millisecond
	}
}

// encodeAgreement returns the fields e, a, t and s.
func (s *Store) encodeAgreement(at string, l *agreement) []any {
	var anchors []string
	for _, a := range l.anchors {
		anchors = append(anchors, strconv.FormatInt(a.height, 10)+":"+a.hash)
	}
	fields := []string{strconv.FormatInt(l.epoch, 10), strings.Join(anchors, " "), strconv.FormatInt(l.confirmed, 10)}
	text := strings.Join(fields, "\n")
	sealed := s.codec.seal(at, []byte(text))
	return []any{fields[0], fields[1], fields[2], sealed[len(text):]}
}

// decodeAgreement parses the reply of readAgreement, and ignores invalid epochs and anchors. If the signature is not
// ours it returns an error and an empty agreement.
func (s *Store) decodeAgreement(at string, reply []any) (l agreement, err error) {
	if len(reply) != 6 {
		return l, fmt.Errorf("%w: the script replied %d values, not 6", errCorrupt, len(reply))
	}
	var field [5]string // version, e, a, t, s
	for i := range field {
		field[i], _ = reply[i].(string)
	}
	l.version = field[0]
	l.now, _ = reply[5].(int64)
	if field[1] == "" {
		return l, nil
	}
	if _, err := s.codec.open(at, strings.Join(field[1:4], "\n")+field[4]); err != nil {
		return l, err
	}
	l.read(field[1], field[2], field[3], s.o.Now().Add(maxClockSkew).Unix())
	return l, nil
}

func (l *agreement) read(epoch, anchors, confirmed string, latest int64) {
	e, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil || e < 0 || e > latest {
		return
	}
	l.epoch = e
	highest := int64(0)
	for field := range strings.FieldsSeq(anchors) {
		name, hash, _ := strings.Cut(field, ":")
		height, err := strconv.ParseInt(name, 10, 64)
		if err == nil && height > highest && hash != "" && len(hash) <= maxHash && len(l.anchors) < 2*maxAnchors {
			l.anchors, highest = append(l.anchors, anchor{height, hash}), height
		}
	}
	l.confirmed, _ = strconv.ParseInt(confirmed, 10, 64) // 0 if invalid
	l.confirmed = max(0, l.confirmed)
}

// storedAgreement returns the four fields and their version, which identifies the contents. It treats anything else
// than a hash of limited size as absent.
const storedAgreement = `
local function stored()
	local v = redis.pcall('HMGET', KEYS[1], 'e', 'a', 't', 's')
	if v.err then return {'', '', '', ''}, 'foreign' end
	local size = 0
	for i = 1, 4 do
		v[i] = v[i] or ''
		size = size + #v[i]
	end
	if size > tonumber(ARGV[1]) then return {'', '', '', ''}, 'large ' .. size end
	return v, redis.sha1hex(table.concat(v, '\n'))
end
`

// readAgreement returns {version, e, a, t, s, time in milliseconds}.
//
// KEYS: epoch. ARGV: maximum size in bytes.
var readAgreement = redis.NewScript(storedAgreement + `
local v, version = stored()
local t = redis.call('TIME')
return {version, v[1], v[2], v[3], v[4], t[1] * 1000 + math.floor(t[2] / 1000)}
`)

// writeAgreement stores the fields if the version is unchanged, and reports whether it did.
//
// KEYS: epoch. ARGV: maximum size in bytes, version, lifetime in milliseconds, e, a, t, s.
var writeAgreement = redis.NewScript(storedAgreement + `
local _, version = stored()
if version ~= ARGV[2] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'e', ARGV[4], 'a', ARGV[5], 't', ARGV[6])
if ARGV[7] ~= '' then redis.call('HSET', KEYS[1], 's', ARGV[7]) end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
`)
