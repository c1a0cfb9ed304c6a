package main

import (
	"cmp"
	"context"
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
func (f *adminFlags) query(ctx context.Context, timeout time.Duration, method, target, refused string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	// The listener is never opened. Port 0 cannot be the port of --admin, which would be a problem.
	settings := settingFlags{file: f.file, values: map[string][]string{"listen": {"127.0.0.1:0"}}}
	cfg, err := settings.load()
	if err != nil {
		return nil, err
	}
	base, err := connect.AdminURL(cfg, cmp.Or(f.address, cfg.Admin))
	if err != nil {
		return nil, err
	}
	token := ""
	if strings.HasPrefix(target, "/admin/") {
		token = strings.TrimPrefix(cfg.AdminToken, "none")
	}
	return connect.QueryAdmin(ctx, method, base+target, token, refused)
}
