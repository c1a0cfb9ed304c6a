package config_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/config"
	"github.com/tipcache/tipcache/proxy"
	"github.com/tipcache/tipcache/upstream/expect"
)

const dashboardMounts = `
http:
  mounts:
    - path: /
    - path: /api
      shape: node
      fallback: http://story-staking-api:8080/api
      always: [/staking/validators, "/staking/validators/{v}", "/dkg/network/{round}"]
      pass_authorization: true
`

func TestMountsAreReadFromFile(t *testing.T) {
	cfg := expect.Value(config.Load(config.Sources{File: writeFile(t, dashboardMounts)}))(t)
	var got []string
	for _, m := range cfg.ProxyOptions().Mounts {
		text := m.Path + " " + string(m.Shape)
		if m.Fallback != "" {
			text += " " + m.Fallback + " " + strings.Join(m.Always, " ") + fmt.Sprintf(" %t", m.PassAuthorization)
		}
		got = append(got, text)
	}
	want := []string{"/ ", "/api node http://story-staking-api:8080/api /staking/validators /staking/validators/{v} /dkg/network/{round} true"}
	expect.NoDiff(t, got, want, "mounts")
	if !cfg.NodeOptions().VerbatimKeys {
		t.Error("VerbatimKeys = false with a mount in the node's shape, want true")
	}
	if got := config.Default().ProxyOptions().Mounts; got != nil {
		t.Errorf("default mounts = %v, want nil: one at the root", got)
	}
	for path, want := range map[string]string{"/": `"url":"/"`, "/api": `"url":"/api"`, "/nothing": `nothing is mounted at "/nothing"; expected one of ["/" "/api"]`} {
		document, err := proxy.Document(cfg.ProxyOptions(), path)
		if got := fmt.Sprintf("%s %v", document, err); !strings.Contains(got, want) {
			t.Errorf("document of the mount at %s = %.300s, want %s in it", path, got, want)
		}
	}
}

func TestInvalidMountsAreRefused(t *testing.T) {
	for name, tt := range map[string]struct{ mounts, problem string }{
		"no path":                   {"[{shape: node}]", `http.mounts[0].path: "" is not a path such as /api`},
		"a relative path":           {"[{path: api}]", `http.mounts[0].path: "api" is not a path`},
		"a slash at the end":        {"[{path: /api/}]", `http.mounts[0].path: "/api/" is not a path`},
		"two slashes":               {"[{path: //api}]", `http.mounts[0].path: "//api" is not a path`},
		"dots":                      {"[{path: /api/..}]", `http.mounts[0].path: "/api/.." is not a path`},
		"an escape":                 {"[{path: /a%2fb}]", `http.mounts[0].path: "/a%2fb" is not a path`},
		"a variable":                {"[{path: '/{chain}'}]", `http.mounts[0].path: "/{chain}" is not a path`},
		"authorization for nobody":  {"[{path: /api, pass_authorization: true}]", "http.mounts[0].pass_authorization: needs a fallback"},
		"a path twice":              {"[{path: /api}, {path: /api}]", "http.mounts[1].path: /api is also the path of http.mounts[0]"},
		"a path of rows":            {"[{path: /}, {path: /staking}]", "http.mounts[1].path: hides /staking/"},
		"a path of the documents":   {"[{path: /x/docs}, {path: /x}]", "http.mounts[0].path: hides /docs of the mount at /x"},
		"the path of collections":   {"[{path: /api/v4}]", "http.mounts[0].path: /api/v4 belongs to the collections"},
		"a path of collections":     {"[{path: /api/v4/x}]", "http.mounts[0].path: /api/v4/x belongs to the collections"},
		"a health check":            {"[{path: /readyz}]", "http.mounts[0].path: /readyz is the path of a health check"},
		"an unknown shape":          {"[{path: /api, shape: round}]", `http.mounts[0].shape: "round" is none of documented, node`},
		"a fallback without scheme": {"[{path: /api, fallback: 'indexer:8080'}]", "http.mounts[0].fallback: "},
		"a fallback with a user":    {"[{path: /api, fallback: 'http://me:secret@indexer'}]", "http.mounts[0].fallback: a user, a query and a fragment have no meaning here"},
		"a pattern without slash":   {"[{path: /api, fallback: 'http://x', always: [staking]}]", `http.mounts[0].always[0]: "staking" does not begin with /`},
		"a malformed pattern":       {"[{path: /api, fallback: 'http://x', always: ['/x/{v']}]", "http.mounts[0].always[0]: "},
		"patterns and no fallback":  {"[{path: /api, always: [/x]}]", "http.mounts[0].always: needs a fallback"},
		"an unknown member":         {"[{path: /api, shap: node}]", "http.mounts[0].shap: no such setting"},
		"one section":               {"{path: /api}", "http.mounts: a list of sections is expected here"},
		"a list of texts":           {"[/api]", "http.mounts[0]: a section is expected here"},
		"a list of lists":           {"[[]]", "http.mounts[0]: a section is expected here"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Load(config.Sources{File: writeFile(t, "http:\n  mounts: "+tt.mounts+"\n")})
			wantError(t, err, tt.problem)
			if strings.Contains(fmt.Sprint(err), "secret") {
				t.Errorf("error = %v, want no secret in it", err)
			}
		})
	}
	_, err := config.Load(config.Sources{Environ: []string{"TIPCACHE_HTTP_MOUNTS=/api"}})
	wantError(t, err, "http.mounts: only a file can hold this section")
}

func TestMountsNeedRestart(t *testing.T) {
	running, next := config.Default(), config.Default()
	next.HTTP.Mounts = []proxy.Mount{{Path: "/api"}}
	changed, restart := running.Reload(next)
	if len(changed) != 0 || len(restart) != 1 || restart[0] != "http.mounts" {
		t.Errorf("Reload = %v and %v that need a restart, want none and http.mounts", changed, restart)
	}
}
