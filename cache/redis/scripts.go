package redis

// An entry is a hash with two fields: m changes from block to block, b is the body. Its lease is a string with the
// holder's token. Both keys have the same hash tag and so the same hash slot.
//
// The scripts parse the beginning of m:
//
//	2 <height> <read at> <expires> <etag> ...
//
// Times are in microseconds. Other values are foreign: reads treat them as absent, writes overwrite them.

// acquireScript returns {state, m, b, milliseconds left, holder}. If the entry does not have the version that the
// caller has judged, it returns the entry instead of the lease, because only callers judge freshness. It omits b if the
// caller has the content. A caller that did not get the reply may call again with the same token. A lease without an
// expiry counts as free. A longer lease than the caller's is shortened to it; a living holder renews its own. A
// distrusted holder's lease is granted, too. If another replica has the lease, the script publishes the caller's message.
// If Redis refuses writes, the script still reports the holder.
//
// KEYS: entry, lease. ARGV: version or nothing, token, lease in milliseconds, distrusted holder or nothing,
// channel or nothing, message.
const acquireScript = `
local m, state = redis.pcall('HGET', KEYS[1], 'm'), 'granted'
if type(m) == 'table' then m, state = false, 'foreign' end
if m and (ARGV[1] == '' or string.sub(m, 1, #ARGV[1]) ~= ARGV[1]) then
	local head, b = '^2 %d+ %d+ %d+ (%S+) ', false
	local etag = string.match(m, head)
	if not etag or etag ~= string.match(ARGV[1], head) then b = redis.call('HGET', KEYS[1], 'b') end
	return {'changed', m, b, 0, ''}
end
local taken = redis.pcall('SET', KEYS[2], ARGV[2], 'PX', ARGV[3], 'NX')
if taken and taken.ok then return {state, m, false, 0, ''} end
local left, holder = redis.call('PTTL', KEYS[2]), redis.pcall('GET', KEYS[2])
if type(holder) ~= 'string' then holder = '' end
if left > 0 and holder ~= ARGV[2] and (ARGV[4] == '' or holder ~= ARGV[4]) then
	if left > tonumber(ARGV[3]) then
		redis.call('PEXPIRE', KEYS[2], ARGV[3])
		left = tonumber(ARGV[3])
	end
	if ARGV[5] ~= '' then redis.pcall('PUBLISH', ARGV[5], ARGV[6]) end
	return {'busy', false, false, left, holder}
end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
return {state, m, false, 0, ''}
`

// writeScript stores entries unless newer ones are there, releases the caller's leases, and publishes the results in
// one message. One script handles many entries because starting a script costs Redis as much as some writes.
//
// To release a lease without an entry, m is empty and b is the mark to publish. For each entry or mark the reply is
//
//   - 'done';
//   - 'older' if a newer entry is stored;
//   - 'body' if b is only the ETag, and the stored content differs; nothing has changed then;
//   - '!' and the error if Redis refused the write;
//   - for a mark, the mark, or 'lost' if the lease was not the caller's.
//
// Redis refuses HSET for lack of memory only until the script has written anything, even by DEL or PEXPIRE. Such commands
// therefore come late: leases are released after all entries are written, and a refused entry gets no expiry. A foreign value
// is first overwritten by SET, which Redis can refuse, and then deleted.
//
// Instead of the content that Redis has, b is "=" and the ETag between spaces, as in m.
//
// KEYS: entry and lease of each. ARGV: channel (empty to publish nothing), maximum length of b in messages, position of the key
// in an entry's Redis key; for each: m, b, expiry in milliseconds, token, height above which a stored entry is replaced even if it
// is newer (0 for none).
const writeScript = `
local call, match = redis.pcall, string.match
local channel, longest, from = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])
local function write(entry, m, b, expiry, most)
	local old = call('HGET', entry, 'm') or ''
	if type(old) == 'table' then
		old = call('SET', entry, '')
		if old.err then return old end
		call('DEL', entry)
		old = ''
	end
	local oh, at = match(old, '^2 (%d+) ()')
	if oh and (most == '0' or tonumber(oh) <= tonumber(most)) then
		local h, r = match(m, '^2 (%d+) (%d+)')
		local newer = tonumber(h) > tonumber(oh)
		if h == oh or h == '0' or oh == '0' then newer = tonumber(r) >= tonumber(match(old, '^%d+', at) or 0) end
		if not newer then return 'older' end
	end
	local done
	if string.sub(b, 1, 1) ~= '=' then
		done = call('HSET', entry, 'm', m, 'b', b)
	elseif string.find(old, string.sub(b, 2), 1, true) then
		done = call('HSET', entry, 'm', m)
	else
		return 'body'
	end
	if type(done) == 'table' then return done end
	call('PEXPIRE', entry, expiry)
	return 'done'
end
local replies, told = {}, {'*'}
for i = 1, #KEYS, 2 do
	local at = (i - 1) / 2 * 5 + 4
	local m = ARGV[at]
	replies[#replies + 1] = m ~= '' and write(KEYS[i], m, ARGV[at + 1], ARGV[at + 2], ARGV[at + 4])
end
for n, reply in ipairs(replies) do
	local entry, lease, at = KEYS[2 * n - 1], KEYS[2 * n], (n - 1) * 5 + 4
	local m, b = ARGV[at], ARGV[at + 1]
	local held = reply ~= 'body' and call('GET', lease) == ARGV[at + 3]
	if held then call('DEL', lease) end
	reply = reply or held and b or 'lost'
	replies[n] = type(reply) == 'table' and '!' .. reply.err or reply
	if channel ~= '' and reply ~= 'body' and reply ~= 'lost' then
		if reply ~= 'done' then
			m, b = (type(reply) == 'table' or reply == '-') and '-' or '+', ''
		elseif #b > longest or string.sub(b, 1, 1) == '=' then
			b = ''
		end
		local key, n = string.sub(entry, from, -2), #told
		told[n + 1], told[n + 2], told[n + 3], told[n + 4] = #key .. ' ' .. #m .. ' ' .. #b .. ' ', key, m, b
	end
end
if #told > 1 then redis.call('PUBLISH', channel, table.concat(told)) end
return replies
`

// keepScript extends a lease that is still the caller's.
//
// KEYS: lease. ARGV: token, lease in milliseconds.
const keepScript = `
if redis.pcall('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return 0
`
