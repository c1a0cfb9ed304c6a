vcl 4.1;
# Varnish as an edge before tipcache on 127.0.0.1:8080, tried with 7.1: see deploy/docs/networks.md.
#
#   varnishd -a 127.0.0.1:8111 -f varnish.vcl -s malloc,512m -p default_grace=0 \
#     -p thread_pool_add_delay=0.05 -p thread_pool_timeout=10 -p thread_queue_limit=20000
#
# The last three are for crowds that wait at one poll: with its answer all of them want a thread at once, and the few there
# are serve them from a queue in a third of the CPU that thousands of threads take. Where thousands of streams are piped,
# each of which has a thread, thread_pool_min is their number.
#
# It keeps answers as long as Cache-Control says: those whose URL names their block for a day, those of the newest block
# for what is left of the block in whole seconds (s-maxage); and those to polls (?since=) for a second, whatever their status:
# one is asked for all who follow.
import std;
backend tipcache {
  .host = "127.0.0.1"; .port = "8080";
  .first_byte_timeout = 60s;                  # above the 20 s of a poll
  .between_bytes_timeout = 60s;               # above the pause between two events or comments of a stream
}
sub vcl_recv {
  if (req.method != "GET" && req.method != "HEAD") { return (pass); }
  if (req.http.Accept ~ "text/event-stream") { return (pipe); }
  # The key has no request header: what names its block or its user by one goes past the cache.
  if (req.http.X-Block-Height || req.http.X-Min-Block-Height || req.http.X-Min-Evm-Block
      || req.http.X-Cosmos-Block-Height || req.http.Grpc-Metadata-X-Cosmos-Block-Height
      || req.http.X-Api-Key || req.http.Authorization) { return (pass); }
  return (hash);                              # cookies, too: no answer depends on them
}
sub vcl_pipe { set bereq.http.Connection = "close"; }
sub vcl_backend_response {
  set beresp.grace = 0s;                      # 10 s by default, in which the answer of a block before is given
  set beresp.keep = 60s;                      # asks with If-None-Match
  if (beresp.http.Cache-Control ~ "(?i)(no-store|private|no-cache)" || beresp.http.Set-Cookie) {
    return (pass(1s));
  }
  # What is left of the block, from now on: Varnish takes the Age off, as of the max-age that it is a part of.
  if (beresp.http.Cache-Control ~ "s-maxage=[0-9]+") {
    set beresp.ttl = std.duration(regsub(beresp.http.Cache-Control, "^.*s-maxage=([0-9]+).*$", "\1s"), 0s);
  }
  if (bereq.url ~ "[?&]since=" && beresp.http.Cache-Control ~ "max-age=1$") {
    set beresp.ttl = 1s;                      # a failure, too: else all who wait go on at once
  }
  if (beresp.ttl <= 0s) {
    return (pass(1s));                        # nobody waits for another's answer; the built-in's hit-for-miss lasts 120 s
  }
  return (deliver);
}
