package main

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/tipcache/tipcache/cmd/tipcache/connect"
)

// adminFlags find the admin listener of a running tipcache serve.
type adminFlags struct{ file, address string }

func addAdminFlags(fs *pflag.FlagSet) *adminFlags {
	f := &adminFlags{}
	fs.StringVar(&f.file, "config", "", "YAML `file` with the settings of serve")
	fs.StringVar(&f.address, "admin", "", "`ADDRESS` or URL of the admin listener (default: the setting admin, or 127.0.0.1:8081)")
	return f
}

// query sends a request to the admin listener and returns the body. The token is sent only to the paths that need it.
// An invalid configuration is an error only if the request fails, too: the running process may have an earlier one.
func (f *adminFlags) query(ctx context.Context, timeout time.Duration, method, target, refused string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	cfg, invalid := (&settingFlags{file: f.file}).load()
	base, err := connect.AdminURL(cfg, cmp.Or(f.address, cfg.Admin))
	if err != nil {
		return nil, errors.Join(err, invalid)
	}
	token := ""
	if strings.HasPrefix(target, "/admin/") {
		token = strings.TrimPrefix(cfg.AdminToken, "none")
	}
	text, err := connect.QueryAdmin(ctx, method, base+target, token, refused)
	if err != nil {
		return nil, errors.Join(err, invalid)
	}
	return text, nil
}
