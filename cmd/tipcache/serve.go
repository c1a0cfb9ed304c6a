package main

import "context"

func serveCommand(ctx context.Context, args []string, std streams) error {
	fs := newFlags("serve", "answer both interfaces", std)
	settings := addSettingFlags(fs)
	if err := fs.parse(args, 0); err != nil {
		return err
	}
	cfg, err := settings.load()
	if err != nil {
		return err
	}
	log := newLogger(std.err, cfg.Log)
	if cfg.Collections.Auth == "closed" {
		log.Warn("collections are closed: nobody may ask for them until a store and keys are configured")
	}
	s, err := newService(ctx, cfg, log)
	if err != nil {
		return err
	}
	return s.run(ctx)
}
