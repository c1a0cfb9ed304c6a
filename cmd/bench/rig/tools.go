package rig

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// tools are the programs of the parts, and debian the packages that have them.
var tools = []string{"wrk", "h2load", "openssl", "nginx", "varnishd", "redis-server", "redis-cli", "socat", "initdb"}

const debian = "wrk nghttp2-client openssl nginx-light varnish redis-server redis-tools socat postgresql"

// findTools adds to the PATH where Debian keeps servers, the newest PostgreSQL
// first. It says which programs are not there, of which the run may need none.
func (o Options) findTools() {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	dirs = append(dirs, "/usr/sbin", os.Getenv("PATH"))
	slices.Reverse(dirs)
	_ = os.Setenv("PATH", strings.Join(dirs, ":"))
	missing := slices.DeleteFunc(slices.Clone(tools), func(tool string) bool {
		_, err := exec.LookPath(tool)
		return err == nil
	})
	if len(missing) > 0 {
		o.Note("Some parts need what is not installed: %s. Debian's packages are: %s.", strings.Join(missing, ", "), debian)
	}
}

// Output runs a program in a directory, "" for the current one, to its end, and
// returns what it prints.
func Output(ctx context.Context, dir string, argv ...string) (string, error) {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	text, err := cmd.CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, text)
	}
	return string(text), nil
}
