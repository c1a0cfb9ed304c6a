// Package deploy_test checks the deployed files against the program: every flag, variable and key in them must exist and be
// valid.
package deploy_test

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/tipcache/tipcache/proxy/docs"
	"github.com/tipcache/tipcache/upstream/expect"
)

// program is the path of tipcache, built by TestMain.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "tipcache-deploy-")
	if err == nil {
		err = build(filepath.Join(dir, "tipcache"))
	}
	code := 1
	if err == nil {
		code = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, err)
	}
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

func build(path string) error {
	program = path
	if out, err := exec.Command("go", "build", "-tags", "nomsgpack", "-o", path, "../cmd/tipcache").CombinedOutput(); err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	return nil
}

// expectAccepted fails the test if tipcache refuses args with only env in its environment.
func expectAccepted(t *testing.T, env []string, args ...string) {
	t.Helper()
	cmd := exec.Command(program, args...)
	cmd.Env = append([]string{}, env...) // nil means the environment of this process
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("tipcache %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// expectCommandAccepted checks a command line without running it. Its last argument may be an operand.
func expectCommandAccepted(t *testing.T, env, args []string) {
	t.Helper()
	switch name := args[0]; name {
	case "serve", "health":
		expectAccepted(t, env, append([]string{"check"}, args[1:]...)...)
	default:
		flags := args
		if len(args)%2 == 0 { // name, flags with values, and operand
			flags = args[:len(args)-1]
		}
		expectAccepted(t, env, append(slices.Clone(flags), "-h")...)
	}
}

func TestExampleConfigurationIsValid(t *testing.T) {
	expectAccepted(t, nil, "check", "--config", "tipcache.yaml")
}

// composeFiles are the compose files, with the number of their services that run tipcache.
var composeFiles = map[string]int{"compose.yaml": 4, "regions/compose.yaml": 4}

func TestComposeCommandsAreValid(t *testing.T) {
	for file, want := range composeFiles {
		expect.Equal(t, runCompose(t, file), want, "services of %s that run tipcache", file)
	}
}

// runCompose checks the services of a compose file that run tipcache, and returns their number.
func runCompose(t *testing.T, file string) (count int) {
	services, _ := read(t, file)["services"].(map[string]any)
	for name, s := range services {
		service := s.(map[string]any)
		if service["image"] != "tipcache" {
			continue
		}
		count++
		t.Run(name, func(t *testing.T) {
			env := variables(service["environment"])
			command := words(service["command"])
			for _, volume := range words(service["volumes"]) {
				source, rest, _ := strings.Cut(volume, ":")
				target, _, _ := strings.Cut(rest, ":")
				if i := slices.Index(command, target); i >= 0 {
					command[i] = filepath.Join(filepath.Dir(file), source)
				}
			}
			expectCommandAccepted(t, env, command)
			if health, ok := service["healthcheck"].(map[string]any); ok {
				test := words(health["test"])
				if len(test) < 3 || test[0] != "CMD" || test[1] != "/tipcache" {
					t.Fatalf("health check = %v, want /tipcache, the only program of the image", test)
				}
				expectCommandAccepted(t, env, test[2:])
			}
		})
	}
	return count
}

func TestComposePublishesEachPortOnce(t *testing.T) {
	for file := range composeFiles {
		services, _ := read(t, file)["services"].(map[string]any)
		published := map[string]string{}
		for name, s := range services {
			for _, port := range words(s.(map[string]any)["ports"]) {
				address := port[:strings.LastIndex(port, ":")]
				if other, ok := published[address]; ok {
					t.Errorf("%s: services %s and %s both publish %s", file, name, other, address)
				}
				published[address] = name
			}
		}
	}
}

func TestFilesMountedByComposeExist(t *testing.T) {
	services, _ := read(t, "compose.yaml")["services"].(map[string]any)
	for name, s := range services {
		for _, volume := range words(s.(map[string]any)["volumes"]) {
			path, _, _ := strings.Cut(volume, ":")
			if _, err := os.Stat(path); strings.HasPrefix(path, "./") && err != nil {
				t.Errorf("volume of %s: %v", name, err)
			}
		}
	}
	for _, target := range words(at(read(t, "prometheus/prometheus.yml"), "scrape_configs", "static_configs", "targets")) {
		service, _, _ := strings.Cut(target, ":")
		if services[service] == nil {
			t.Errorf("scrape target %s is not a service of compose.yaml", target)
		}
	}
}

func TestManualHasEachAlertAndNoOther(t *testing.T) {
	manual := expect.Value(os.ReadFile("docs/monitoring.md"))(t)
	groups, _ := read(t, "prometheus/alerts.yaml")["groups"].([]any)
	var alerts, rows []string
	for _, group := range groups {
		rules, _ := at(group, "rules").([]any)
		for _, rule := range rules {
			name, _ := at(rule, "alert").(string)
			alerts = append(alerts, name)
			if url, _ := at(rule, "annotations", "runbook_url").(string); !strings.HasSuffix(url, "/deploy/docs/monitoring.md#alerts") {
				t.Errorf("runbook_url of %s = %q, want one that ends in /deploy/docs/monitoring.md#alerts", name, url)
			}
		}
	}
	for _, row := range regexp.MustCompile(`(?m)^\| (Tipcache\w+) \| `).FindAllSubmatch(manual, -1) {
		rows = append(rows, string(row[1]))
	}
	expect.NoDiff(t, slices.Sorted(slices.Values(rows)), slices.Sorted(slices.Values(alerts)), "alerts in docs/monitoring.md")
}

func TestSystemdConfigurationIsValid(t *testing.T) {
	file := expect.Value(os.Open("systemd/tipcache.env"))(t)
	defer file.Close()
	var env []string
	for lines := bufio.NewScanner(file); lines.Scan(); {
		// Settings in comments are examples, and must be valid, too.
		if line := strings.TrimPrefix(lines.Text(), "#"); strings.HasPrefix(line, "TIPCACHE_") {
			env = append(env, line)
		}
	}
	if len(env) == 0 {
		t.Fatal("systemd/tipcache.env has no variables")
	}
	expectAccepted(t, env, "check", "--config", "systemd/tipcache.yaml")
}

func TestSystemdUnitIsWellFormed(t *testing.T) {
	path, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("install systemd to run this test: systemd-analyze must be on the PATH")
	}
	text := expect.Value(os.ReadFile("systemd/tipcache.service"))(t)
	unit := filepath.Join(t.TempDir(), "tipcache.service")
	installed := strings.ReplaceAll(string(text), "/usr/local/bin/tipcache", "/bin/true")
	expect.NoError(t, os.WriteFile(unit, []byte(installed), 0o600))
	if out, err := exec.Command(path, "verify", "--man=no", unit).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify = %v, want success without output\n%s", err, out)
	}
}

func read(t *testing.T, path string) map[string]any {
	t.Helper()
	text := expect.Value(os.ReadFile(path))(t)
	return parse(t, text)
}

func parse(t *testing.T, text []byte) map[string]any {
	t.Helper()
	var doc map[string]any
	if err := yaml.Unmarshal(text, &doc); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return doc
}

func variables(environment any) []string {
	m, _ := environment.(map[string]any)
	var env []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		env = append(env, fmt.Sprintf("%s=%v", name, m[name]))
	}
	return env
}

func words(list any) []string {
	var all []string
	items, _ := list.([]any)
	for _, item := range items {
		all = append(all, fmt.Sprint(item))
	}
	return all
}

func TestEverythingHasTheVersionOfTheProgram(t *testing.T) {
	chart := read(t, "helm/tipcache/Chart.yaml")
	for what, version := range map[string]any{
		"chart": chart["version"], "program in the chart": chart["appVersion"], "TypeScript package": read(t, "typescript/package.json")["version"],
	} {
		expect.Equal(t, version, docs.Version, "version of %s", what)
	}
	workflow := string(expect.Value(os.ReadFile("../.github/workflows/release.yml"))(t))
	expect.Contains(t, workflow, "tipcache:${{ env.VERSION }}\n", "tag of the released image")
	expect.Contains(t, workflow, `--app-version "$VERSION"`, "tag that the released chart pulls")
	expect.Contains(t, string(expect.Value(os.ReadFile("../.gitignore"))(t)), "\n/dist/\n", "files that are no change of a released program")
	for file, text := range map[string]string{"CHANGELOG.md": "\n## " + docs.Version, "docs/kubernetes.md": "{name: tipcache, version: " + docs.Version + ","} {
		if got, err := os.ReadFile(file); err != nil || !strings.Contains(string(got), text) {
			t.Errorf("%s lacks %q: %v", file, text, err)
		}
	}
}
