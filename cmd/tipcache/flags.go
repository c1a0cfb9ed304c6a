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

// addFlagsOf adds the flags of the settings that a command needs.
func addFlagsOf(fs *pflag.FlagSet, needed func(config.Key) bool) *settingFlags {
	s := &settingFlags{values: map[string][]string{}}
	fs.StringVar(&s.file, "config", "", "YAML `file` with settings")
	for _, k := range config.Keys() {
		if k.Flag == "" || !needed(k) {
			continue
		}
		fs.VarPF(&settingFlag{k, s.values}, k.Flag, "", flagUsage(k)).NoOptDefVal = ifBool(k)
	}
	return s
}

// A settingFlag collects the values of one setting. Loading the configuration validates them.
type settingFlag struct {
	key    config.Key
	values map[string][]string
}

func (f *settingFlag) Set(v string) error {
	f.values[f.key.Flag] = append(f.values[f.key.Flag], v)
	return nil
}

// String returns "", because the usage text contains the default.
func (f *settingFlag) String() string { return "" }

// Type returns the placeholder for the value in the help.
func (f *settingFlag) Type() string {
	if ifBool(f.key) != "" {
		return "bool"
	}
	return "value"
}

// ifBool returns the implied value of a boolean flag, "" for other flags.
func ifBool(k config.Key) string {
	if _, yesOrNo := k.Default.(bool); yesOrNo {
		return "true"
	}
	return ""
}

func flagUsage(k config.Key) string {
	repeat := ""
	if k.List {
		repeat = " May be repeated."
	}
	return fmt.Sprintf("%s%s\n(%s, %s; default %s)", k.Doc, repeat, k.Path, k.Env, cmp.Or(k.DefaultText(), "empty"))
}

// load reads flags, environment and file into a valid configuration.
func (s *settingFlags) load() (config.Config, error) {
	cfg, err := config.Load(config.Sources{
		File: s.file, Environ: os.Environ(), Flags: s.values,
	})
	if err != nil {
		return cfg, fmt.Errorf("the configuration has problems:\n%w", err)
	}
	return cfg, nil
}

// loadForStore is load for commands that serve no API, so that they need no keys and no admin token.
func (s *settingFlags) loadForStore() (config.Config, error) {
	s.values["admin"], s.values["collections-auth"] = []string{"none"}, []string{"none"}
	return s.load()
}
