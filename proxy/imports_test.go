package proxy_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/tipcache/tipcache/upstream/expect"
)

const module = "github.com/tipcache/tipcache/"

// mayImport lists the packages that the code of each directory may import, tests excepted. It also applies to
// directories below that have no line of their own. A name that ends in /... includes all directories below.
var mayImport = map[string][]string{
	"cmd":                    {"cmd/...", "config", "proxy/...", "cache/...", "upstream/..."},
	"cmd/tipcache/probe":     {"proxy/cosmos", "proxy/story", "proxy/story/documented", "upstream", "upstream/heights/comet", "upstream/node"},
	"config":                 {"proxy/...", "cache/...", "upstream/..."},
	"proxy":                  {"proxy/...", "cache", "cache/ahead", "upstream/node"},
	"proxy/admin":            {"proxy/conn"},
	"proxy/fallback":         {"proxy/failure", "proxy/limits", "proxy/respond", "proxy/session", "proxy/stream", "proxy/web", "upstream", "upstream/account"},
	"proxy/docs":             {"proxy/limits", "proxy/respond", "proxy/session", "proxy/blocks", "proxy/dialect", "proxy/story", "proxy/story/documented", "proxy/cosmos", "proxy/collections", "proxy/stream", "proxy/web", "cache"},
	"proxy/story/documented": {},
	"proxy/blocks":           {"proxy/record", "proxy/respond", "proxy/conn", "proxy/failure", "proxy/session", "proxy/web", "proxy/limits", "cache", "upstream", "upstream/account", "upstream/node", "upstream/node/queue"},
	"proxy/dialect":          {"proxy/respond", "proxy/failure", "proxy/blocks", "proxy/web", "cache", "upstream/node"},
	"proxy/story":            {"proxy/respond", "proxy/failure", "proxy/story/documented", "proxy/dialect", "proxy/blocks", "proxy/web", "proxy/limits", "cache", "upstream", "upstream/account", "upstream/node"},
	"proxy/cosmos":           {"proxy/respond", "proxy/failure", "proxy/dialect", "proxy/blocks", "proxy/state", "proxy/web", "cache", "upstream", "upstream/node"},
	"proxy/collections":      {"proxy/record", "proxy/respond", "proxy/conn", "proxy/failure", "proxy/web", "proxy/limits", "cache", "upstream", "upstream/collections", "upstream/collections/metadata", "upstream/jsontext"},
	"proxy/stream":           {"proxy/limits", "proxy/respond", "proxy/failure", "proxy/session", "proxy/web", "cache", "upstream", "upstream/account", "upstream/node"},
	"proxy/rpc/jsonrpc":      {"upstream/jsontext"},
	"proxy/state":            {"proxy/respond", "proxy/failure", "proxy/dialect", "proxy/blocks", "proxy/web", "cache", "upstream", "upstream/node", "upstream/protofield"},
	"proxy/grpc":             {"proxy/record", "proxy/respond", "proxy/conn", "proxy/lane", "proxy/failure", "proxy/state", "proxy/blocks", "proxy/web", "proxy/limits", "cache", "upstream", "upstream/account", "upstream/heights", "upstream/node", "upstream/protofield"},
	"proxy/rpc":              {"proxy/record", "proxy/respond", "proxy/conn", "proxy/failure", "proxy/rpc/jsonrpc", "proxy/rpc/socket", "proxy/state", "proxy/blocks", "proxy/web", "proxy/limits", "cache", "upstream", "upstream/node"},
	"proxy/rpc/socket":       {"proxy/rpc/jsonrpc", "proxy/failure", "proxy/session", "proxy/web", "upstream/events"},
	"proxy/web":              {"proxy/respond", "proxy/conn", "proxy/session", "proxy/failure", "proxy/limits", "proxy/record", "cache", "upstream", "upstream/account"},
	"proxy/respond":          {"proxy/conn", "proxy/session", "proxy/limits", "cache", "cache/codings"},
	"proxy/conn":             {"proxy/session", "proxy/limits", "proxy/failure", "cache/heap", "upstream/account"},
	"proxy/session":          {"proxy/limits", "upstream/node"},
	"proxy/limits":           {"proxy/failure", "upstream", "upstream/account"},
	"proxy/failure":          {"upstream/account", "cache", "upstream"},
	"proxy/record":           {"proxy/failure", "proxy/limits", "proxy/respond", "proxy/session", "cache"},
	"proxy/lane/heads":       {},
	"proxy/lane":             {"proxy/respond", "proxy/conn", "proxy/session", "proxy/lane/heads", "proxy/web", "proxy/limits", "proxy/record", "upstream/account"},
	"cache":                  {"cache/...", "upstream", "upstream/account"},
	"upstream":               {},
	"upstream/account":       {},
	"upstream/node":          {"upstream", "upstream/account", "upstream/jsontext", "upstream/protofield", "upstream/node/queue", "upstream/heights/...", "upstream/transport"},
	"upstream/node/queue":    {"upstream"},
	"upstream/node/nodetest": {"upstream/node"},
	"upstream/heights":       {"upstream", "upstream/account", "upstream/jsontext", "upstream/heights/...", "upstream/protofield", "upstream/transport"},
	"upstream/transport":     {"upstream"},
	"upstream/events":        {"upstream", "upstream/account", "upstream/events/query", "upstream/heights/comet", "upstream/heights/tip"},
	"upstream/events/query":  {},
	"upstream/collections":   {"upstream", "upstream/account", "upstream/jsontext", "upstream/collections/..."},
	"upstream/devnet":        {"upstream/devnet/...", "upstream/collections", "upstream/porttest", "upstream/protofield"},
	"deploy":                 {},

	"upstream/devnet/redistest": {"upstream/expect", "upstream/porttest"},
}

func TestPackagesImportOnlyAllowedPackages(t *testing.T) {
	for dir, imported := range productImports(t) {
		allowed := allowedImports(dir)
		for _, name := range imported {
			if other, ours := strings.CutPrefix(name, module); ours && !slices.ContainsFunc(allowed, func(pattern string) bool { return covers(pattern, other) }) {
				t.Errorf("%s imports %s, want only packages that mayImport lists", dir, other)
			}
			if name == "github.com/gin-gonic/gin" && dir != "proxy/web" && dir != "cmd/bench/peers" {
				t.Errorf("%s imports Gin, want it imported only by proxy/web", dir)
			}
			if strings.HasPrefix(name, "github.com/redis/go-redis/") && dir != "cache/redis" && !covers("cmd/bench/...", dir) && dir != "upstream/devnet/redistest" {
				t.Errorf("%s imports go-redis, want it imported only by cache/redis, bench and tests", dir)
			}
		}
	}
}

// allowedImports returns the line of a directory, or of the nearest parent that has one.
func allowedImports(dir string) []string {
	for ; dir != "."; dir = path.Dir(dir) {
		if allowed, ok := mayImport[dir]; ok {
			return allowed
		}
	}
	return nil
}

func covers(pattern, dir string) bool {
	parent, all := strings.CutSuffix(pattern, "/...")
	return dir == parent || all && strings.HasPrefix(dir, parent+"/")
}

var fileName = regexp.MustCompile(`\b[a-z_0-9/]+\.go\b`)

func TestFilesNamedInCommentsExist(t *testing.T) {
	t.Parallel()
	forEachFile(t, func(file string, f *ast.File) {
		for _, group := range f.Comments {
			for _, name := range fileName.FindAllString(group.Text(), -1) {
				if !exists(filepath.Join(filepath.Dir(file), name)) && !exists(filepath.Join("..", name)) {
					t.Errorf("comment in %s names %s, which does not exist", file, name)
				}
			}
		}
	})
}

func exists(file string) bool {
	_, err := os.Stat(file)
	return err == nil
}

// productImports returns the imports of each directory, without tests.
func productImports(t *testing.T) map[string][]string {
	t.Helper()
	found := map[string][]string{}
	forEachFile(t, func(file string, f *ast.File) {
		dir := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(file)), "../")
		for _, spec := range f.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			found[dir] = append(found[dir], name)
		}
	})
	if len(found) < len(mayImport) {
		t.Fatalf("directories with Go files = %d, want at least %d", len(found), len(mayImport))
	}
	return found
}

// forEachFile parses each Go file of the module, without tests.
func forEachFile(t *testing.T, do func(file string, f *ast.File)) {
	t.Helper()
	err := filepath.WalkDir("..", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
		if err == nil {
			do(file, f)
		}
		return err
	})
	expect.NoError(t, err)
}
