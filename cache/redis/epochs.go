package redis

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// An Agreement is what replicas agree on about a chain that may be reset.
type Agreement struct {
	Epoch     int64            // in force
	Anchors   map[int64]string // hashes of some of its blocks, by height
	Confirmed time.Duration    // since a replica last confirmed the highest anchor
}

const (
	epochLife  = 30 * 24 * time.Hour // longer than any entry lives
	maxAnchors = 16
	maxHash    = 128 // bytes
	earlyEpoch = 24 * time.Hour
)

// Agreement gives the epoch that is in force for a chain: the highest that any
// replica has told. An epoch from the future is nobody's.
func (s *Store) Agreement(ctx context.Context, chainID string, epoch int64) (Agreement, error) {
	latest := s.o.Now().Add(earlyEpoch).Unix()
	reply, err := s.runEpoch(ctx, agreeScript, chainID, epoch, latest, epochLife.Milliseconds())
	if err != nil {
		return Agreement{}, err
	}
	if len(reply) != 3 {
		return Agreement{}, errors.New("redis: the script did not reply three values")
	}
	inForce, _ := reply[0].(int64)
	anchors, _ := reply[1].(string)
	confirmed, _ := reply[2].(int64)
	if confirmed < 0 { // by a clock that is wrong
		confirmed = epochLife.Milliseconds()
	}
	return Agreement{inForce, readAnchors(anchors), time.Duration(confirmed) * time.Millisecond}, nil
}

// NextEpoch moves the chain from one epoch to another, unless another replica
// was faster, and gives the epoch that is in force then.
func (s *Store) NextEpoch(ctx context.Context, chainID string, from, to int64) (int64, error) {
	reply, err := s.runEpoch(ctx, nextEpochScript, chainID, from, to, epochLife.Milliseconds())
	if err != nil || len(reply) != 1 {
		return 0, errors.Join(err, errors.New("redis: the epoch was not moved"))
	}
	inForce, _ := reply[0].(int64)
	return inForce, nil
}

// AddAnchor notes, or confirms, the hash of a block of an epoch.
func (s *Store) AddAnchor(ctx context.Context, chainID string, epoch, height int64, hash string) error {
	_, err := s.runEpoch(ctx, anchorScript, chainID, epoch, height, hash, maxAnchors, epochLife.Milliseconds())
	return err
}

func (s *Store) runEpoch(ctx context.Context, script *redis.Script, chainID string, args ...any) (reply []any, err error) {
	err = s.do(ctx, func(ctx context.Context) (err error) {
		reply, err = script.Run(ctx, s.rdb, []string{epochKey(chainID)}, args...).Slice()
		return err
	})
	return reply, err
}

// epochKey has another form than the keys of entries and leases have.
func epochKey(chainID string) string { return "tipcache:1:epoch:{" + url.QueryEscape(chainID) + "}" }

// readAnchors reads "height:hash height:hash"; what is not of that form is no
// anchor.
func readAnchors(text string) map[int64]string {
	anchors := map[int64]string{}
	for field := range strings.FieldsSeq(text) {
		name, hash, _ := strings.Cut(field, ":")
		height, err := strconv.ParseInt(name, 10, 64)
		if err == nil && height > 0 && hash != "" && len(hash) <= maxHash && len(anchors) < 2*maxAnchors {
			anchors[height] = hash
		}
	}
	return anchors
}

// The epoch of a chain is a hash: e is its number, a has its anchors with their
// heights ascending, t is when the last of them was confirmed, in milliseconds.
// What is no such hash, or no such number, is replaced.
const epochParse = `
local function current(latest)
	local e = redis.pcall('HGET', KEYS[1], 'e')
	if type(e) == 'table' then redis.call('DEL', KEYS[1]) return 0 end
	e = tonumber(e or '0')
	if not e or e < 0 or e ~= math.floor(e) or latest and e > latest then return 0 end
	return e
end
local function begin(e, life)
	redis.call('DEL', KEYS[1])
	redis.call('HSET', KEYS[1], 'e', string.format('%d', e))
	redis.call('PEXPIRE', KEYS[1], life)
end
local function now()
	local t = redis.call('TIME')
	return t[1] * 1000 + math.floor(t[2] / 1000)
end
`

// agreeScript gives {epoch, anchors, milliseconds since the last was confirmed}.
//
// KEYS: epoch. ARGV: the caller's epoch, the latest that can be, life in milliseconds.
var agreeScript = redis.NewScript(epochParse + `
local e = current(tonumber(ARGV[2]))
if e < tonumber(ARGV[1]) then
	e = tonumber(ARGV[1])
	begin(e, ARGV[3])
end
local a, t = redis.call('HGET', KEYS[1], 'a'), tonumber(redis.call('HGET', KEYS[1], 't') or '')
return {e, a or '', t and now() - t or 0}
`)

// nextEpochScript gives {epoch}.
//
// KEYS: epoch. ARGV: from, to, life in milliseconds.
var nextEpochScript = redis.NewScript(epochParse + `
local e = current()
if e <= tonumber(ARGV[1]) then
	e = tonumber(ARGV[2])
	begin(e, ARGV[3])
end
return {e}
`)

// anchorScript appends an anchor above the others, or confirms the highest.
//
// KEYS: epoch. ARGV: epoch, height, hash, most anchors, life in milliseconds.
var anchorScript = redis.NewScript(epochParse + `
if current() ~= tonumber(ARGV[1]) then return {0} end
local all, highest = {}, 0
for field in string.gmatch(redis.call('HGET', KEYS[1], 'a') or '', '%S+') do
	local h = tonumber(string.match(field, '^(%d+):'))
	if h and h > highest then
		highest = h
		all[#all + 1] = field
	end
end
if tonumber(ARGV[2]) > highest then all[#all + 1] = ARGV[2] .. ':' .. ARGV[3] end
while #all > tonumber(ARGV[4]) do table.remove(all, 1) end
if tonumber(ARGV[2]) >= highest then
	redis.call('HSET', KEYS[1], 'e', ARGV[1], 'a', table.concat(all, ' '), 't', string.format('%d', now()))
	redis.call('PEXPIRE', KEYS[1], ARGV[5])
end
return {1}
`)
