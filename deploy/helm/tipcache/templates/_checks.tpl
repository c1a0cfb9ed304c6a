{{/*
What the program would refuse, and what values.schema.json cannot express because several settings are involved. A setting
that a variable sets is not known here, so no rule applies to it. chart_values_test.go compares the rules with the program.
*/}}

{{/* The names of all variables of the container, without the suffix _FILE, separated by blanks. */}}
{{- define "tipcache.variables" -}}
{{- range $name := keys .Values.secret.env }} {{ trimSuffix "_FILE" $name }}{{ end -}}
{{- range .Values.env }} {{ trimSuffix "_FILE" .name }}{{ end }} {{/**/ -}}
{{- end }}

{{/* A time such as 1m30s, in seconds. */}}
{{- define "tipcache.seconds" -}}
{{- $units := dict "ns" 0.000000001 "us" 0.000001 "µs" 0.000001 "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 -}}
{{- $sum := 0.0 -}}
{{- range regexFindAll "[0-9.]+[a-zµ]+" . -1 -}}
{{- $sum = addf $sum (mulf (float64 (regexFind "[0-9.]+" .)) (get $units (regexFind "[a-zµ]+" .))) -}}
{{- end -}}
{{ $sum }}
{{- end }}

{{/* The items of a list as JSON. A single value stands for a list of one. */}}
{{- define "tipcache.list" -}}
{{ if kindIs "invalid" . }}[]{{ else if kindIs "slice" . }}{{ toJson . }}{{ else }}{{ toJson (list .) }}{{ end }}
{{- end }}

{{/* Fails unless the numbers and times of a class are in order. */}}
{{- define "tipcache.checkClass" -}}
{{- range list (list "fresh_blocks" "stale_blocks") (list "stale_blocks" "error_blocks") -}}
{{- $a := get $.class (first .) }}{{ $b := get $.class (last .) -}}
{{- if and (hasKey $.class (first .)) (hasKey $.class (last .)) (gt (int64 $a) (int64 $b)) -}}
{{- fail (printf "config.%s: %s (%v) must not exceed %s (%v)" $.key (first .) $a (last .) $b) -}}
{{- end -}}
{{- end -}}
{{- range list (list "fresh" "stale") (list "stale" "stale_if_error") -}}
{{- $a := get $.class (first .) }}{{ $b := get $.class (last .) -}}
{{- if and $a $b (gt (float64 (include "tipcache.seconds" $a)) (float64 (include "tipcache.seconds" $b))) -}}
{{- fail (printf "config.%s: %s (%s) must not exceed %s (%s)" $.key (first .) $a (last .) $b) -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "tipcache.check" -}}
{{- $config := .Values.config -}}
{{- $variables := include "tipcache.variables" . -}}
{{- $nodes := include "tipcache.list" (dig "chain" "nodes" nil $config) | fromJsonArray -}}
{{- $comet := include "tipcache.list" (dig "chain" "comet" nil $config) | fromJsonArray -}}
{{- $grpc := include "tipcache.list" (dig "chain" "grpc" nil $config) | fromJsonArray -}}
{{- $known := not (regexMatch " TIPCACHE_CHAIN_(NODES|COMET|GRPC) " $variables) -}}
{{- if and (eq .Values.mode "tier") (not $nodes) (not (contains " TIPCACHE_CHAIN_NODES " $variables)) -}}
{{- fail "config.chain.nodes is needed in a tier: the REST addresses of the nodes. If they hold a credential, set TIPCACHE_CHAIN_NODES in secret.env instead" -}}
{{- end -}}
{{- if and $known $nodes (ne (first $nodes) "none") -}}
{{- if ne (len $comet) (len $nodes) -}}
{{- fail (printf "config.chain.comet has %d addresses for %d nodes: list one for each node, or none for a node without one" (len $comet) (len $nodes)) -}}
{{- end -}}
{{- if and $grpc (ne (len $grpc) (len $nodes)) -}}
{{- fail (printf "config.chain.grpc has %d addresses for %d nodes: list one for each node, or none for a node without one" (len $grpc) (len $nodes)) -}}
{{- end -}}
{{- end -}}
{{- $noComet := and $known $nodes (not (without $comet "none")) -}}
{{- if and $noComet .Values.ports.rpc -}}
{{- fail "ports.rpc needs an address in config.chain.comet" -}}
{{- end -}}
{{- if and $noComet .Values.ports.grpc (not (without $grpc "none")) -}}
{{- fail "ports.grpc needs an address in config.chain.grpc or config.chain.comet" -}}
{{- end -}}
{{- $redis := dig "redis" "url" "none" $config -}}
{{- if and $noComet (or (contains " TIPCACHE_REDIS_URL " $variables) (ne $redis "none")) (not (dig "chain" "id" "" $config)) (not (contains " TIPCACHE_CHAIN_ID " $variables)) -}}
{{- fail "config.chain.id is needed with Redis if no node has an address in config.chain.comet" -}}
{{- end -}}

{{- $ports := list -}}
{{- range compact (list .Values.ports.public .Values.ports.admin .Values.ports.rpc .Values.ports.grpc) }}{{ $ports = append $ports (toString .) }}{{ end -}}
{{- if ne (len $ports) (len (uniq $ports)) -}}
{{- fail "ports: each port needs its own number" -}}
{{- end -}}
{{- if not (contains " TIPCACHE_ADMIN_TOKEN " $variables) -}}
{{- fail "secret.env needs TIPCACHE_ADMIN_TOKEN, because other pods can reach the admin port" -}}
{{- end -}}

{{- $keys := or (dig "collections" "keys" nil $config) (contains " TIPCACHE_COLLECTIONS_KEYS " $variables) -}}
{{- if and (not $keys) (eq (dig "chain" "auth" "none" $config) "keys") -}}
{{- fail "config.chain.auth: keys needs config.collections.keys, or TIPCACHE_COLLECTIONS_KEYS in secret.env" -}}
{{- end -}}
{{- $auth := dig "collections" "auth" (ternary "keys" "closed" (or (not (empty (get $config "collections"))) (contains " TIPCACHE_COLLECTIONS_" $variables))) $config -}}
{{- if and (not $keys) (eq $auth "keys") (not (contains " TIPCACHE_COLLECTIONS_AUTH " $variables)) -}}
{{- fail "config.collections.keys is needed, or TIPCACHE_COLLECTIONS_KEYS in secret.env, or config.collections.auth: none" -}}
{{- end -}}
{{- if and (dig "index" "enabled" false $config) (hasPrefix "http" (dig "collections" "store" "" $config)) -}}
{{- fail "config.index.enabled: config.collections.store is another server, which fills its own store" -}}
{{- end -}}

{{- if and (eq (dig "http" "proxy_protocol" "off" $config) "required") (not (dig "http" "trusted_proxies" nil $config)) (not (contains " TIPCACHE_HTTP_TRUSTED_PROXIES " $variables)) -}}
{{- fail "config.http.proxy_protocol: required needs config.http.trusted_proxies, because no client could connect" -}}
{{- end -}}
{{- $paths := list -}}
{{- range dig "http" "mounts" list $config -}}
{{- if has .path $paths -}}
{{- fail (printf "config.http.mounts: two have the path %s" .path) -}}
{{- end -}}
{{- $paths = append $paths .path -}}
{{- end -}}

{{- if not (regexMatch " TIPCACHE_(REDIS|CHAIN)_TIMEOUT " $variables) -}}
{{- $timeout := dig "redis" "timeout" "100ms" $config -}}
{{- range list (dig "chain" "timeout" "5s" $config) "3s" -}}
{{- if ge (float64 (include "tipcache.seconds" $timeout)) (float64 (include "tipcache.seconds" .)) -}}
{{- fail (printf "config.redis.timeout (%s) must be shorter than 3s and than config.chain.timeout (%s)" $timeout (dig "chain" "timeout" "5s" $config)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if not (contains " TIPCACHE_CLASSES_" $variables) -}}
{{- $defaults := dict
      "live" (dict "fresh_blocks" 0 "stale_blocks" 5 "error_blocks" 1000 "fresh" "2s" "stale" "15s" "stale_if_error" "30m")
      "params" (dict "fresh_blocks" 0 "stale_blocks" 600 "error_blocks" 40000 "fresh" "1m" "stale" "20m" "stale_if_error" "24h") -}}
{{- range $name, $class := $defaults -}}
{{- range $field, $value := dig "classes" $name dict $config }}{{ $_ := set $class $field $value }}{{ end -}}
{{- include "tipcache.checkClass" (dict "key" (printf "classes.%s" $name) "class" $class) -}}
{{- end -}}
{{- end -}}
{{- range $name, $class := dig "routes" dict $config -}}
{{- include "tipcache.checkClass" (dict "key" (printf "routes.%s" $name) "class" $class) -}}
{{- end -}}
{{- end }}
