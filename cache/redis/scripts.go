package redis

// An entry is a hash with two fields, m for what changes from block to block
// and b for the body, and its lease a string that names the holder. Both keys
// carry the same hash tag, so they share a hash slot of a cluster.
//
// The scripts read the beginning of m, which is text for their sake:
//
//	1 <height> <read at> <expires> <etag> ...
//
// Times are microseconds, exact as doubles. What does not begin like that, or is
// no hash, is foreign: absent when asked for, overwritten when written to.
const parse = `
local function parse(m)
	local h, r, x, etag = string.match(m or '', '^1 (%d+) (%d+) (%d+) (%S+) ')
	return tonumber(h), tonumber(r), tonumber(x), etag
end
local function stored()
	local m = redis.pcall('HGET', KEYS[1], 'm')
	if type(m) == 'table' then return nil, true end
	return m or nil, false
end
`

// acquireScript gives {state, m, b, milliseconds left, holder}. An entry that is not of the
// version that the caller has judged is given instead of the lease: freshness is
// judged by callers alone. b is left out if the caller has it already. A caller that did
// not get the reply may ask again with the same token and finds the lease its own; a
// lease without an expiry is none, and one that would last longer than the caller's is
// cut to the caller's: either no replica holds it, or its holder renews it. The lease of
// a holder that the caller does not believe is the caller's, too.
//
// KEYS: entry, lease. ARGV: version or nothing, token, lease in milliseconds,
// holder that is not believed or nothing.
const acquireScript = parse + `
local m, foreign = stored()
if m and (ARGV[1] == '' or string.sub(m, 1, #ARGV[1]) ~= ARGV[1]) then
	local _, _, _, etag = parse(m)
	local _, _, _, known = parse(ARGV[1])
	local b = false
	if not etag or etag ~= known then b = redis.call('HGET', KEYS[1], 'b') end
	return {'changed', m, b, 0, ''}
end
local left, holder = redis.call('PTTL', KEYS[2]), redis.pcall('GET', KEYS[2])
if type(holder) ~= 'string' then holder = '' end
if left > 0 and holder ~= ARGV[2] and (ARGV[4] == '' or holder ~= ARGV[4]) then
	if left > tonumber(ARGV[3]) then
		redis.call('PEXPIRE', KEYS[2], ARGV[3])
		left = tonumber(ARGV[3])
	end
	return {'busy', false, false, left, holder}
end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return {foreign and 'foreign' or 'granted', m or false, false, 0, ''}
`

// settleScript writes an entry unless a newer one is there, gives the lease back
// if it is still the caller's, and tells all replicas of it. The message is "+<key>", or
// where it says what was written "=<length of key> <length of m> <key><m><b>": without b
// where that has not changed or is long. An empty b means
// that the body has not changed: if another content is there, nothing is done and
// the answer is 'body'. A write that is refused (for want of memory) still gives
// the lease back. Redis runs no script more often, so that it is short.
//
// KEYS: entry, lease. ARGV: m, b, expiry in milliseconds, token, channel (empty: the caller
// tells), key, highest height (0: any), how a message that says what was written begins, up to the key
// (empty: none does), length of the longest b to be told.
const settleScript = `
local call, match, m, b = redis.pcall, string.match, ARGV[1], ARGV[2]
local old = call('HGET', KEYS[1], 'm') or ''
if type(old) == 'table' then
	call('DEL', KEYS[1])
	old = ''
end
local h, r, etag = match(m, '^1 (%d+) (%d+) %d+ (%S+) ')
local oh, orr, oetag = match(old, '^1 (%d+) (%d+) %d+ (%S+) ')
local newer = true
if oh and (ARGV[7] == '0' or tonumber(oh) <= tonumber(ARGV[7])) then
	newer = tonumber(r) >= tonumber(orr)
	if h ~= oh and h ~= '0' and oh ~= '0' then newer = tonumber(h) > tonumber(oh) end
end
local done, message = 'older', '+' .. ARGV[6]
if newer then
	if b == '' then
		if etag ~= oetag then return 'body' end
		done = call('HSET', KEYS[1], 'm', m)
	else
		done = call('HSET', KEYS[1], 'm', m, 'b', b)
	end
	call('PEXPIRE', KEYS[1], ARGV[3])
	if type(done) == 'table' then
		message = '-' .. ARGV[6]
	elseif ARGV[8] ~= '' then
		message = ARGV[8] .. ARGV[6] .. m .. (#b <= tonumber(ARGV[9]) and b or '')
	end
end
if call('GET', KEYS[2]) == ARGV[4] then call('DEL', KEYS[2]) end
if ARGV[5] ~= '' then redis.call('PUBLISH', ARGV[5], message) end
return type(done) == 'number' and 'done' or done
`

// keepScript lengthens a lease that is still the caller's.
//
// KEYS: lease. ARGV: token, lease in milliseconds.
const keepScript = `
if redis.pcall('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
`

// abandonScript gives back a lease that is still the caller's, and tells those
// who wait for it that nothing came of it.
//
// KEYS: lease. ARGV: token, channel (empty: the caller tells), message.
const abandonScript = `
if redis.pcall('GET', KEYS[1]) ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
if ARGV[2] ~= '' then redis.call('PUBLISH', ARGV[2], ARGV[3]) end
return 1
`
