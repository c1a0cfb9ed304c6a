{{/*
What a pod needs to run tipcache, the same in both modes. A chart of your own
that depends on this one puts them into its pod with the subchart's context:

  containers:
    {{- include "tipcache.container" .Subcharts.tipcache | nindent 4 }}
  volumes:
    {{- include "tipcache.volumes" .Subcharts.tipcache | nindent 4 }}

Such a pod needs enableServiceLinks: false as well. Otherwise a Service whose
name begins with tipcache becomes TIPCACHE_... variables, which tipcache rejects.
*/}}

{{- define "tipcache.config" -}}
{{- $own := dict
      "listen" (printf "0.0.0.0:%v" .Values.ports.public)
      "admin" (printf "0.0.0.0:%v" .Values.ports.admin)
      "http" (dict "drain_delay" (printf "%vs" .Values.drain.delaySeconds)) -}}
{{- if .Values.tlsSecret }}
{{- $_ := set $own.http "tls" (dict "cert" "/etc/tipcache-tls/tls.crt" "key" "/etc/tipcache-tls/tls.key") }}
{{- end }}
{{- range $name := list "rpc" "grpc" }}
{{- with get $.Values.ports $name }}
{{- $_ := set $own $name (dict "listen" (printf "0.0.0.0:%v" .)) }}
{{- end }}
{{- end }}
{{ toYaml (mergeOverwrite (deepCopy .Values.config) $own) }}
{{- end }}

{{/* All listeners use TLS, or none. */}}
{{- define "tipcache.scheme" -}}
{{ if or .Values.tlsSecret (((.Values.config.http).tls).cert) (contains " TIPCACHE_HTTP_TLS_CERT " (include "tipcache.variables" .)) }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}

{{/* The name of the port of the readiness probe. */}}
{{- define "tipcache.readinessPort" -}}
{{- if eq .Values.readinessPort "public" -}}
{{- if eq (((.Values.config.http).proxy_protocol) | default "off") "required" -}}
{{- fail "readinessPort: public does not work with config.http.proxy_protocol: required, because the kubelet does not send the header of the PROXY protocol" }}
{{- end -}}
tipcache
{{- else -}}
tipcache-admin
{{- end -}}
{{- end }}

{{- define "tipcache.container" -}}
{{- $scheme := include "tipcache.scheme" . }}
- name: tipcache
  image: {{ printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) | quote }}
  imagePullPolicy: {{ .Values.image.pullPolicy }}
  args: [serve, --config, /etc/tipcache/tipcache.yaml]
  env:
    {{- $secret := .Values.secret.name | default (include "tipcache.fullname" .) }}
    {{- range $variable, $key := .Values.secret.env }}
    - name: {{ $variable }}
      valueFrom:
        secretKeyRef: {name: {{ $secret | quote }}, key: {{ $key | quote }}}
    {{- end }}
    {{- with .Values.env }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  ports:
    - {name: tipcache, containerPort: {{ .Values.ports.public }}}
    - {name: tipcache-admin, containerPort: {{ .Values.ports.admin }}}
    {{- with .Values.ports.rpc }}
    - {name: tipcache-rpc, containerPort: {{ . }}}
    {{- end }}
    {{- with .Values.ports.grpc }}
    - {name: tipcache-grpc, containerPort: {{ . }}}
    {{- end }}
  {{- if eq .Values.mode "sidecar" }}
  # The pod has one node. While the node cannot be used, clients must use other
  # pods. Catching up may take hours, so the startup probe does not wait for it.
  startupProbe:
    httpGet: {path: /healthz, port: tipcache-admin, scheme: {{ $scheme }}}
    periodSeconds: 1
    failureThreshold: 30
  readinessProbe:
    httpGet: {path: "/readyz?require=node", port: {{ include "tipcache.readinessPort" . }}, scheme: {{ $scheme }}}
    periodSeconds: 2
    timeoutSeconds: 2
    failureThreshold: 2
  {{- else }}
  # A new replica waits until it can serve. If the nodes or the store fail later,
  # they fail for all replicas, so one that can still serve stays ready.
  startupProbe:
    httpGet: {path: /readyz, port: tipcache-admin, scheme: {{ $scheme }}}
    periodSeconds: 2
    timeoutSeconds: 2
    failureThreshold: 900
  readinessProbe:
    httpGet: {path: /readyz, port: {{ include "tipcache.readinessPort" . }}, scheme: {{ $scheme }}}
    periodSeconds: 2
    timeoutSeconds: 2
    failureThreshold: 2
  {{- end }}
  livenessProbe:
    httpGet: {path: /healthz, port: tipcache-admin, scheme: {{ $scheme }}}
    periodSeconds: 10
    timeoutSeconds: 5
    failureThreshold: 6
  resources:
    {{- toYaml .Values.resources | nindent 4 }}
  securityContext:
    {{- toYaml .Values.securityContext | nindent 4 }}
  volumeMounts:
    - {name: tipcache-config, mountPath: /etc/tipcache, readOnly: true}
    - {name: tipcache-data, mountPath: /data}
    {{- if .Values.tlsSecret }}
    - {name: tipcache-tls, mountPath: /etc/tipcache-tls, readOnly: true}
    {{- end }}
    {{- with .Values.volumeMounts }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end }}

{{/* /data is the working directory: a store such as sqlite:tipcache.db is there. */}}
{{- define "tipcache.volumes" -}}
- name: tipcache-config
  configMap: {name: {{ include "tipcache.fullname" . }}}
- name: tipcache-data
  emptyDir: {sizeLimit: 1Gi}
{{- with .Values.tlsSecret }}
- name: tipcache-tls
  secret: {secretName: {{ . | quote }}}
{{- end }}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Longer than the drain, so that Kubernetes does not kill the process before its end. */}}
{{- define "tipcache.gracePeriod" -}}
{{ add .Values.drain.delaySeconds .Values.drain.graceSeconds }}
{{- end }}

{{/* A changed configuration changes the annotation, and so replaces the pods. */}}
{{- define "tipcache.annotations" -}}
checksum/tipcache: {{ include "tipcache.config" . | sha256sum }}
{{- with .Values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end }}
