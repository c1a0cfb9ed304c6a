vcl 4.1;
# Varnish as an edge in front of tipcache on 127.0.0.1:8080, tested with Varnish 7.1. See deploy/docs/networks.md.
#
#   varnishd -a 127.0.0.1:8111 -f varnish.vcl -s malloc,512m -p default_grace=0 \
#     -p thread_pool_add_delay=0.05 -p thread_pool_timeout=10 -p thread_queue_limit=20000
#
# The last three parameters are for many clients that wait for one poll. Its response wakes all of them at once, and a
# few threads with a queue take a third of the CPU of thousands of threads. If thousands of streams are piped, set
# thread_pool_min to their number, because each stream needs a thread.
#
# It caches responses as Cache-Control says:
#   - for a day if the URL names their block;
#   - until the next block in whole seconds (s-maxage) if they are from the newest block;
#   - for a second, except refusals (4xx), if they answer a poll (?since=). It sends one poll for all clients.
import std;
backend tipcache {
  .host = "127.0.0.1"; .port = "8080";
  .first_byte_timeout = 60s;                  # above the 20 s of a poll
  .between_bytes_timeout = 60s;               # above the pause between two events or comments of a stream
}
sub vcl_recv {
  if (req.method != "GET" && req.method != "HEAD") { return (pass); }
  # /live streams whatever the client accepts.
  if (req.http.Accept ~ "(?i)text/event-stream" || req.url ~ "/live(\?|$)") { return (pipe); }
  # The key has no request header: requests that name their block or user in a header bypass the cache.
  if (req.http.X-Block-Height || req.http.X-Min-Block-Height || req.http.X-Min-Evm-Block
      || req.http.X-Cosmos-Block-Height || req.http.Grpc-Metadata-X-Cosmos-Block-Height
      || req.http.X-Api-Key || req.http.Authorization) { return (pass); }
  return (hash);                              # also with cookies: no response that is stored depends on them
}
sub vcl_pipe { set bereq.http.Connection = "close"; }
sub vcl_backend_response {
  set beresp.grace = 0s;                      # the default of 10 s would serve responses of earlier blocks
  set beresp.keep = 60s;                      # revalidate with If-None-Match
  if (beresp.http.Cache-Control ~ "(?i)(no-store|private|no-cache)" || beresp.http.Set-Cookie) {
    return (pass(1s));
  }
  # s-maxage is the time to the next block. Varnish would subtract Age from it.
  if (beresp.http.Cache-Control ~ "s-maxage=[0-9]+") {
    set beresp.ttl = std.duration(regsub(beresp.http.Cache-Control, "^.*s-maxage=([0-9]+).*$", "\1s"), 0s);
  }
  if (bereq.url ~ "[?&]since=" && beresp.http.Cache-Control ~ "max-age=1$") {
    set beresp.ttl = 1s;                      # also for errors, otherwise all waiting clients request at once
  }
  if (beresp.ttl <= 0s) {
    return (pass(1s));                        # requests do not wait for each other; the built-in hit-for-miss lasts 120 s
  }
  return (deliver);
}
