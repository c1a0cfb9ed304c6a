package deploy_test

import (
	"os"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/proxy/docs"
	"github.com/tipcache/tipcache/upstream/expect"
)

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
