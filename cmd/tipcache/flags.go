package main

import (
	"cmp"
	"fmt"
	"os"

	"github.com/spf13/pflag"

	"github.com/tipcache/tipcache/config"
)

// settingFlags holds the values of setting flags, so that the configuration can be loaded again.
type settingFlags struct {
	file   string
	values map[string][]string
}

// addSettingFlags adds the flags of all settings.
func addSettingFlags(fs *pflag.FlagSet) *settingFlags {
	return addFlagsOf(fs, func(config.Key) bool { return true })
}

// addFlagsOf adds the flags of the settings that a command needs. They collect values, which load validates.
func addFlagsOf(fs *pflag.FlagSet, needed func(config.Key) bool) *settingFlags {
	s := &settingFlags{values: map[string][]string{}}
	fs.StringVar(&s.file, "config", "", "YAML `file` with settings")
	for _, k := range config.Keys() {
		if k.Flag == "" || !needed(k) {
			continue
		}
		add := fs.Func
		if _, yesOrNo := k.Default.(bool); yesOrNo {
			add = fs.BoolFunc
		}
		add(k.Flag, flagUsage(k), func(value string) error {
			s.values[k.Flag] = append(s.values[k.Flag], value)
			return nil
		})
	}
	return s
}

func flagUsage(k config.Key) string {
	repeat := ""
	if k.List {
		repeat = " May be repeated."
	}
	return fmt.Sprintf("%s%s\n(%s, %s; default %s)", k.Doc, repeat, k.Path, k.Env, cmp.Or(k.DefaultText(), "empty"))
}

// read reads flags, environment and file into a valid configuration. The error joins all problems.
func (s *settingFlags) read() (config.Config, error) {
	return config.Load(config.Sources{File: s.file, Environ: os.Environ(), Flags: s.values})
}

// readAgain is read for a running server. It refuses a pipe, which has no second reading: opening it would never end.
func (s *settingFlags) readAgain() (config.Config, error) {
	if info, err := os.Stat(s.file); err == nil && !info.Mode().IsRegular() {
		return config.Config{}, fmt.Errorf("read %s: it is not a regular file, so it cannot be read again", s.file)
	}
	return s.read()
}

// load is read with an error for a terminal.
func (s *settingFlags) load() (config.Config, error) {
	cfg, err := s.read()
	if err != nil {
		return cfg, fmt.Errorf("the configuration has problems:\n%w", err)
	}
	return cfg, nil
}

// loadForStore loads the configuration for commands that serve no API. It requires neither API keys nor an admin token.
func (s *settingFlags) loadForStore() (config.Config, error) {
	for _, flag := range []string{"admin", "chain-auth", "collections-auth"} {
		s.values[flag] = []string{"none"}
	}
	return s.load()
}
