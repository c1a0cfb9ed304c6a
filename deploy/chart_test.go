package deploy_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/upstream/expect"
)

// secrets are values for the keys of a chart's Secret.
var secrets = map[string]string{
	"admin-token":       "0123456789abcdef0123456789abcdef",
	"redis-url":         "rediss://user:password@redis:6379/0",
	"collections-store": "postgres://tipcache:password@postgres:5432/tipcache",
	"collections-keys":  "web:b15d57ed82a0b3fb74ea0a8319547a3377c2888f773019de2e5c8f7466cfe709",
	"metadata-provider": "alchemy:https://story-mainnet.g.alchemy.com/nft/v3/KEY",
}

// kubeVersion is the version that the chart is rendered for. A helm built from its module has no current default.
const kubeVersion = "1.34.0"

func helmPath(t *testing.T) string {
	t.Helper()
	path := os.Getenv("TIPCACHE_TEST_HELM")
	if path == "" {
		t.Skip("set TIPCACHE_TEST_HELM to the path of helm to run this test: .ci/charts installs one")
	}
	return path
}

// helm runs helm, and returns its output.
func helm(t *testing.T, args ...string) string {
	t.Helper()
	var out, warnings strings.Builder // helm warns of symbolic links
	cmd := exec.Command(helmPath(t), args...)
	cmd.Stdout, cmd.Stderr = &out, &warnings
	if err := cmd.Run(); err != nil {
		t.Fatalf("helm %s: %v\n%s%s", strings.Join(args, " "), err, out.String(), warnings.String())
	}
	return out.String()
}

// render returns the manifests by kind and name.
func render(t *testing.T, chart string, args ...string) map[string]map[string]any {
	t.Helper()
	text := helm(t, append([]string{"template", "test", chart, "--kube-version", kubeVersion}, args...)...)
	manifests := map[string]map[string]any{}
	for _, part := range strings.Split(text, "\n---\n") {
		m := parse(t, []byte(part))
		kind, _ := m["kind"].(string)
		name, _ := at(m, "metadata", "name").(string)
		manifests[kind+" "+name] = m
	}
	return manifests
}

// at returns the value at a path of maps. Of a list it takes the first element.
func at(v any, path ...string) any {
	for _, key := range path {
		if list, ok := v.([]any); ok && len(list) > 0 {
			v = list[0]
		}
		m, _ := v.(map[string]any)
		v = m[key]
	}
	return v
}

func TestChartConfigurationsAreAcceptedByServe(t *testing.T) {
	files, err := filepath.Glob("helm/tipcache/ci/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("files in helm/tipcache/ci = %v, %v; want some", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			helm(t, "lint", "--strict", "--quiet", "helm/tipcache", "-f", file)
			manifests := render(t, "helm/tipcache", "-f", file)
			pod := at(manifests["Deployment test-tipcache"], "spec", "template", "spec")
			if patch, ok := at(manifests["ConfigMap test-tipcache-patch"], "data", "patch.yaml").(string); ok {
				pod = at(parse(t, []byte(patch)), "spec", "template", "spec")
			}
			if at(pod, "enableServiceLinks") != false {
				t.Error("enableServiceLinks is not false: tipcache would reject the variables of a Service named tipcache")
			}
			expectServable(t, at(pod, "containers"), manifests["ConfigMap test-tipcache"])
		})
	}
}

// expectServable fails the test unless a container's command line, variables and configuration file are valid together.
func expectServable(t *testing.T, container any, configMap map[string]any) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "tipcache.yaml")
	text, _ := at(configMap, "data", "tipcache.yaml").(string)
	expect.NoError(t, os.WriteFile(config, []byte(text), 0o600))
	args := words(at(container, "args"))
	if len(args) != 3 || args[1] != "--config" {
		t.Fatalf("args = %v, want serve --config FILE", args)
	}
	args[2] = config
	var env []string
	list, _ := at(container, "env").([]any)
	for _, v := range list {
		name, _ := at(v, "name").(string)
		value, ok := at(v, "value").(string)
		if key, secret := at(v, "valueFrom", "secretKeyRef", "key").(string); secret {
			value, ok = secrets[key]
		}
		if !ok {
			t.Errorf("%s has no value", name)
		}
		env = append(env, name+"="+value)
	}
	expectCommandAccepted(t, env, args)
}

func TestAnotherChartCanPutTheContainerIntoItsPod(t *testing.T) {
	parent := t.TempDir()
	for name, text := range map[string]string{
		"Chart.yaml":  "apiVersion: v2\nname: node\nversion: 1.0.0\ndependencies: [{name: tipcache, version: 1.0.0, condition: tipcache.enabled}]\n",
		"values.yaml": "tipcache: {enabled: true, mode: sidecar, config: {chain: {id: story-1}}}\n",
		"templates/pod.yaml": `apiVersion: v1
kind: Pod
metadata: {name: node}
spec:
  enableServiceLinks: false
  containers:
    {{- include "tipcache.container" .Subcharts.tipcache | nindent 4 }}
    - {name: node, image: node}
  volumes:
    {{- include "tipcache.volumes" .Subcharts.tipcache | nindent 4 }}
`} {
		path := filepath.Join(parent, name)
		expect.NoError(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.MkdirAll(filepath.Join(parent, "charts"), 0o755)))
		expect.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	// Copies the targets of symbolic links, like helm dependency build.
	if out, err := exec.Command("cp", "-rL", "helm/tipcache", filepath.Join(parent, "charts")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	manifests := render(t, parent)
	expectServable(t, at(manifests["Pod node"], "spec", "containers"), manifests["ConfigMap test-tipcache"])
}

func TestReadinessProbeUsesTheServingPortIfAskedFor(t *testing.T) {
	file := []string{"-f", "helm/tipcache/ci/tier-values.yaml"}
	sidecar := []string{"-f", "helm/tipcache/ci/sidecar-values.yaml"}
	probes := func(args ...string) string {
		manifests := render(t, "helm/tipcache", args...)
		pod := at(manifests["Deployment test-tipcache"], "spec", "template", "spec")
		if patch, ok := at(manifests["ConfigMap test-tipcache-patch"], "data", "patch.yaml").(string); ok {
			pod = at(parse(t, []byte(patch)), "spec", "template", "spec")
		}
		return fmt.Sprintf("%v %v %v", at(pod, "containers", "startupProbe", "httpGet", "port"), at(pod, "containers", "readinessProbe", "httpGet", "port"), at(pod, "containers", "livenessProbe", "httpGet", "port"))
	}
	for _, values := range [][]string{file, sidecar} {
		expect.Equal(t, probes(values...), "tipcache-admin tipcache-admin tipcache-admin", "ports of the startup, readiness and liveness probes of %s", values[1])
		expect.Equal(t, probes(append(values, "--set", "readinessPort=public")...), "tipcache-admin tipcache tipcache-admin", "ports with readinessPort public of %s", values[1])
	}
	out, err := exec.Command(helmPath(t), "template", "test", "helm/tipcache", "--kube-version", kubeVersion, "-f", file[1],
		"--set", "readinessPort=public,config.http.proxy_protocol=required,config.http.trusted_proxies={10.0.0.0/8}").CombinedOutput()
	if err == nil || !strings.Contains(string(out), "readinessPort: public does not work") {
		t.Errorf("helm template with readinessPort public and proxy_protocol required = %v, want a refusal\n%s", err, out)
	}
}

func TestTierWithoutNodesIsRefused(t *testing.T) {
	out, err := exec.Command(helmPath(t), "template", "test", "helm/tipcache", "--kube-version", kubeVersion).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "config.chain.nodes is needed") {
		t.Errorf("helm template without nodes = %v, want config.chain.nodes is needed\n%s", err, out)
	}
	helm(t, "template", "test", "helm/tipcache", "--kube-version", kubeVersion, "--set", "secret.env.TIPCACHE_CHAIN_NODES=chain-nodes")
}

func TestChartPassesLint(t *testing.T) {
	helm(t, "lint", "helm/tipcache")
}

func TestLabelsOmitTheDigestOfTheImage(t *testing.T) {
	manifests := render(t, "helm/tipcache", "-f", "helm/tipcache/ci/production-values.yaml", "--set", "image.tag=1.0.0@sha256:"+strings.Repeat("0f", 32))
	if got := at(manifests["Deployment test-tipcache"], "metadata", "labels", "app.kubernetes.io/version"); got != "1.0.0" {
		t.Errorf("version label = %v, want 1.0.0", got)
	}
}

func TestChartBringsAlertsDashboardAndIngress(t *testing.T) {
	manifests := render(t, "helm/tipcache", "-f", "helm/tipcache/ci/production-values.yaml")
	alerts := at(read(t, "prometheus/alerts.yaml"), "groups", "rules", "alert")
	if got := at(manifests["PrometheusRule test-tipcache"], "spec", "groups", "rules", "alert"); got == nil || got != alerts {
		t.Errorf("first alert = %v, want %v", got, alerts)
	}
	expect.Contains(t, fmt.Sprint(manifests["ServiceMonitor test-tipcache"]), "replacement:tipcache/test-tipcache targetLabel:job", "job that TipcacheReplicaGone finds")
	dashboard := expect.Value(os.ReadFile("grafana/tipcache.json"))(t)
	got, _ := at(manifests["ConfigMap test-tipcache-dashboard"], "data", "tipcache.json").(string)
	if strings.TrimSpace(got) != strings.TrimSpace(string(dashboard)) {
		t.Error("dashboard of the chart differs from grafana/tipcache.json")
	}
	service := at(manifests["Ingress test-tipcache"], "spec", "rules", "http", "paths", "backend", "service", "name")
	if _, ok := manifests["Service test-tipcache"]; !ok || service != "test-tipcache" {
		t.Errorf("service of the Ingress = %v, want test-tipcache", service)
	}
	if _, ok := manifests["PodDisruptionBudget test-tipcache"]; !ok {
		t.Error("chart has no PodDisruptionBudget")
	}
}

func TestChartServesRPCAndGRPCIfPortsAreSet(t *testing.T) {
	manifests := render(t, "helm/tipcache", "-f", "helm/tipcache/ci/production-values.yaml")
	service := fmt.Sprint(at(manifests["Service test-tipcache"], "spec"))
	expect.Contains(t, service, "externalTrafficPolicy:Local", "Service of production-values.yaml")
	for name, port := range map[string]string{"rpc": "26657", "grpc": "9090"} {
		expect.Contains(t, service, "name:"+name+" port:"+port+" targetPort:tipcache-"+name, "ports of the Service for %s", name)
	}
	if service := fmt.Sprint(render(t, "helm/tipcache", "-f", "helm/tipcache/ci/tier-values.yaml")["Service test-tipcache"]); strings.Contains(service, "rpc") {
		t.Errorf("Service without RPC = %s, want no port for it", service)
	}
}

func TestTLSSecretServesAllListenersByHTTPS(t *testing.T) {
	args := []string{"-f", "helm/tipcache/ci/production-values.yaml", "--set", "gateway.backendTLS.hostname=api.example.org,tlsSecret=certificate"}
	manifests := render(t, "helm/tipcache", args...)
	pod := at(manifests["Deployment test-tipcache"], "spec", "template", "spec")
	for _, probe := range []string{"startupProbe", "readinessProbe", "livenessProbe"} {
		expect.Equal(t, at(pod, "containers", probe, "httpGet", "scheme"), "HTTPS", "scheme of %s", probe)
	}
	config, _ := at(manifests["ConfigMap test-tipcache"], "data", "tipcache.yaml").(string)
	mounts, volumes := fmt.Sprint(at(pod, "containers", "volumeMounts")), fmt.Sprint(at(pod, "volumes"))
	for _, want := range []struct{ in, text string }{
		{config, "cert: /etc/tipcache-tls/tls.crt"},
		{mounts, "mountPath:/etc/tipcache-tls name:tipcache-tls"},
		{volumes, "name:tipcache-tls secret:map[secretName:certificate]"},
		{fmt.Sprint(manifests["ServiceMonitor test-tipcache"]), "scheme:https"},
	} {
		expect.Contains(t, want.in, want.text, "manifest")
	}
	plain := render(t, "helm/tipcache", args[:2]...)
	protocols := func(m map[string]any) []string {
		return regexp.MustCompile(`appProtocol:[\w./]+`).FindAllString(fmt.Sprint(m), -1)
	}
	expect.NoDiff(t, protocols(manifests["Service test-tipcache"]), []string{"appProtocol:https", "appProtocol:https", "appProtocol:https"}, "protocols with tlsSecret")
	expect.NoDiff(t, protocols(plain["Service test-tipcache"]), []string{"appProtocol:kubernetes.io/h2c"}, "protocols without tlsSecret")
	scheme := func(m map[string]map[string]any) any {
		return at(m["Deployment test-tipcache"], "spec", "template", "spec", "containers", "livenessProbe", "httpGet", "scheme")
	}
	expect.Equal(t, scheme(plain), "HTTP", "scheme without tlsSecret")
	variable := render(t, "helm/tipcache", append(args[:2:2], "--set", "gateway.backendTLS.hostname=api.example.org,env[0].name=TIPCACHE_HTTP_TLS_CERT,env[0].value=/tls.crt")...)
	expect.Equal(t, scheme(variable), "HTTPS", "scheme with a certificate that a variable names")
}

func TestChartPassesSettingsToPods(t *testing.T) {
	manifests := render(t, "helm/tipcache", "-f", "helm/tipcache/ci/tier-values.yaml",
		"--set", "podLabels.team=chain,serviceAccountName=reader,podSecurityContext.fsGroup=1000,securityContext.runAsUser=1000",
		"--set", "volumes[0].name=ca,volumes[0].configMap.name=ca,volumeMounts[0].name=ca,volumeMounts[0].mountPath=/etc/ssl/certs")
	template := at(manifests["Deployment test-tipcache"], "spec", "template")
	got := fmt.Sprint(template)
	for _, want := range []string{
		"team:chain", "serviceAccountName:reader", "fsGroup:1000", "runAsUser:1000", "readOnlyRootFilesystem:true",
		"map[configMap:map[name:ca] name:ca]", "map[mountPath:/etc/ssl/certs name:ca]",
	} {
		expect.Contains(t, got, want, "pod template")
	}
}

func TestChartRefusesValuesOfWrongTypes(t *testing.T) {
	for _, value := range []string{
		"drain=5", "drain.delaySeconds=soon", "drain.graceSeconds=20", "podLabels=x", "config.rpc.listen=:26657", "config.grpc.listen=:9090",
	} {
		out, err := exec.Command(helmPath(t), "template", "test", "helm/tipcache", "--kube-version", kubeVersion,
			"-f", "helm/tipcache/ci/tier-values.yaml", "--set", value).CombinedOutput()
		if err == nil || !strings.Contains(string(out), strings.Split(value, "=")[0]) && !strings.Contains(string(out), "/"+strings.ReplaceAll(strings.Split(value, "=")[0], ".", "/")) {
			t.Errorf("helm template with %s = %v, want an error that names the value\n%s", value, err, out)
		}
	}
}

// settings returns the paths that an object of the values' schema accepts.
func settings(t *testing.T, schema map[string]any, prefix string) (paths []string) {
	t.Helper()
	definitions := at(read(t, "helm/tipcache/values.schema.json"), "definitions")
	resolve := func(v any) map[string]any {
		m, _ := v.(map[string]any)
		if ref, ok := m["$ref"].(string); ok {
			m, _ = at(definitions, strings.TrimPrefix(ref, "#/definitions/")).(map[string]any)
		}
		return m
	}
	properties, _ := schema["properties"].(map[string]any)
	if len(properties) == 0 || schema["additionalProperties"] != false {
		t.Errorf("schema of %q accepts other properties, want additionalProperties false", prefix)
	}
	for name, property := range properties {
		m := resolve(property)
		if each, isMap := m["additionalProperties"].(map[string]any); isMap {
			paths = append(paths, prefix+name)
			paths = append(paths, settings(t, resolve(each), prefix+name+".*.")...)
		} else if m["type"] == "object" {
			paths = append(paths, settings(t, m, prefix+name+".")...)
		} else {
			paths = append(paths, prefix+name)
		}
	}
	slices.Sort(paths)
	return paths
}

func TestChartAcceptsExactlyTheExistingSettings(t *testing.T) {
	var want []string
	for _, k := range config.Keys() {
		want = append(want, k.Path)
		if field, ofClass := strings.CutPrefix(k.Path, "classes.live."); ofClass {
			want = append(want, "routes.*."+field)
		}
		if kind := reflect.TypeOf(k.Default).Kind(); kind == reflect.Map && k.Path != "routes" {
			t.Errorf("%s is a map that this test does not know", k.Path)
		}
	}
	slices.Sort(want)
	schema, _ := at(read(t, "helm/tipcache/values.schema.json"), "properties", "config").(map[string]any)
	expect.NoDiff(t, settings(t, schema, ""), want, "config in helm/tipcache/values.schema.json")
}
