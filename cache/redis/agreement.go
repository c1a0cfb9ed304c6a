package redis

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	maxAnchors = 16
	maxHash    = 128      // bytes
	maxLedger  = 16 << 10 // bytes of all fields
)

// An agreement is an [upstream.Agreement] as it is stored: a hash, of which e is the epoch, a has
// the anchors as "height:hash height:hash" with their heights ascending, and t says
// when the last of them was confirmed, in milliseconds. s is the seal of the three.
type agreement struct {
	version   string // of what is stored
	epoch     int64
	anchors   []anchor
	confirmed int64 // 0: never
	now       int64 // by the store's clock, which replicas have in common
}

type anchor struct {
	height int64
	hash   string
}

// begin puts an epoch in force, of which nothing is known yet.
func (l *agreement) begin(epoch int64) { l.epoch, l.anchors, l.confirmed = epoch, nil, 0 }

// anchor adds an anchor above the others, or confirms the highest, and says
// whether there is anything to store.
func (l *agreement) anchor(height int64, hash string) bool {
	highest := int64(0)
	if n := len(l.anchors); n > 0 {
		highest = l.anchors[n-1].height
	}
	if height < highest || height == highest && l.sinceConfirmed() < momentAgo {
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

// sinceConfirmed is long for a time in the future, which is by a clock that is wrong.
func (l *agreement) sinceConfirmed() time.Duration {
	switch since := l.now - l.confirmed; {
	case l.confirmed == 0:
		return 0
	case since < 0:
		return epochLife
	default:
		return time.Duration(since) * time.Millisecond
	}
}

// encodeAgreement gives the fields e, a, t and s.
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

// decodeAgreement reads what readLedger replies. What is no epoch, or no anchor, is
// none. An error says that a writer without our key has written, and the agreement is
// as good as empty.
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
	l.read(field[1], field[2], field[3], s.o.Now().Add(earlyEpoch).Unix())
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
	l.confirmed, _ = strconv.ParseInt(confirmed, 10, 64) // what is none reads as 0
	l.confirmed = max(0, l.confirmed)
}

// storedLedger gives the four fields, and their version: what is stored later has
// another one. What is no hash, or too large for one of ours, is as good as absent.
const storedLedger = `
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

// readLedger gives {version, e, a, t, s, time in milliseconds}.
//
// KEYS: epoch. ARGV: most bytes.
var readLedger = redis.NewScript(storedLedger + `
local v, version = stored()
local t = redis.call('TIME')
return {version, v[1], v[2], v[3], v[4], t[1] * 1000 + math.floor(t[2] / 1000)}
`)

// writeLedger stores the fields if the version has not changed, and says whether.
//
// KEYS: epoch. ARGV: most bytes, version, life in milliseconds, e, a, t, s.
var writeLedger = redis.NewScript(storedLedger + `
local _, version = stored()
if version ~= ARGV[2] then return 0 end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'e', ARGV[4], 'a', ARGV[5], 't', ARGV[6])
if ARGV[7] ~= '' then redis.call('HSET', KEYS[1], 's', ARGV[7]) end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return 1
`)
