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

// findTools adds to the PATH where Debian keeps servers, the newest PostgreSQL first. The
// packages of all tools are in .ci/run.
func findTools() {
	dirs, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	dirs = append(dirs, "/usr/sbin", os.Getenv("PATH"))
	slices.Reverse(dirs)
	_ = os.Setenv("PATH", strings.Join(dirs, ":"))
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
